//! The head of the page and its key figures; the line that the command prints.

use std::path::Path;

use nodeward_model::Escape as _;
use nodeward_model::units::format_bytes;

use super::blocks::paragraph;
use super::markup::{Element, element};
use super::memory::on_nodes;
use super::moved::MovedMemory;
use super::scale::{Quantity, clock};
use crate::output::ledger;
use crate::results::observation::{ByNode, WatchEnd, WatchMoment, WatchReport, sum};

/// Formats one line about the page, for standard output.
pub fn outcome(seen: &WatchReport, file: &Path, bytes: usize) -> String {
    let bytes = format_bytes(bytes as u64);
    let ended = match seen.end {
        WatchEnd::Time => "",
        WatchEnd::Stopped => ", stopped early",
        WatchEnd::Gone => ", until it ended",
    };
    let watched = clock(seen.watched_ns);
    format!("{}, {watched}{ended}: {} ({bytes})\n", subject(seen), file.escaped())
}

/// Returns the title of the page.
pub fn title(seen: &WatchReport) -> String {
    format!("Memory of {} over {}", subject(seen), clock(seen.watched_ns))
}

fn subject(seen: &WatchReport) -> String {
    match (seen.process(), seen.subject) {
        (Some(process), _) => format!("process {} ({})", process.pid, process.name),
        (None, Some(pid)) => format!("process {pid}"),
        (None, None) => "all processes".to_owned(),
    }
}

/// Formats the head.
pub fn head(seen: &WatchReport) -> Vec<Element> {
    let nodes = match seen.topology.nodes.len() {
        1 => "1 node".to_owned(),
        count => format!("{count} nodes"),
    };
    let when = match &seen.scenario {
        Some(scenario) => format!("on a simulated machine ({scenario})"),
        None => format!("from {} on", ledger::time(seen.began_unix_ms)),
    };
    let watched = paragraph(format!(
        "Watched for {} {when}, on {nodes}, at a moment every {}.",
        clock(seen.watched_ns),
        clock(seen.interval_ns),
    ));
    let early = match seen.end {
        WatchEnd::Time => None,
        WatchEnd::Stopped => Some(format!(
            "The watch was stopped before its time: it was to last {}.",
            clock(seen.asked_ns)
        )),
        WatchEnd::Gone => Some(format!(
            "The process ended, or called exec, after {}; the watch was to last {}.",
            clock(seen.watched_ns),
            clock(seen.asked_ns)
        )),
    };
    let early = early.map(|words| paragraph(words).class("early"));
    let heading = element("h1").text(title(seen));
    [heading, watched.class("soft")].into_iter().chain(early).collect()
}

/// Formats the key figures.
pub fn figures(seen: &WatchReport, moved: &MovedMemory<'_>) -> Element {
    let figures = [
        memory(seen),
        local(seen),
        misplaced(seen),
        gain(seen),
        Some(by_nodeward(seen, moved)),
        Some(by_others(seen, moved)),
    ];
    let card = |(name, value, more): Figure| {
        let value = element("span").class("value").text(value);
        let more = element("span").class("more").text(more);
        element("div").child(element("dt").text(name)).child(element("dd").child(value).child(more))
    };
    element("dl").class("figures").children(figures.into_iter().flatten().map(card))
}

/// A name, a value, and what else there is to say.
type Figure = (&'static str, String, String);

fn memory(seen: &WatchReport) -> Option<Figure> {
    let bytes: &ByNode = match seen.process() {
        Some(process) => process.memory()?,
        None => &seen.moments.last()?.node_used_bytes,
    };
    let name =
        if seen.subject.is_some() { "Memory at the end" } else { "Memory in use at the end" };
    Some((name, format_bytes(sum(bytes)), on_nodes(bytes)))
}

fn local(seen: &WatchReport) -> Option<Figure> {
    let mut known = seen.moments.iter().filter_map(|moment: &WatchMoment| moment.local_ppm);
    let first = known.next()?;
    let last = known.next_back().unwrap_or(first);
    let [first, last] = [first, last].map(|ppm| Quantity::Share.label(ppm));
    let value = if first == last { last } else { format!("{first} \u{2192} {last}") };
    Some(("Local share, by residency", value, "at the beginning and at the end".to_owned()))
}

fn misplaced(seen: &WatchReport) -> Option<Figure> {
    let gains: Vec<_> = seen.processes.iter().filter_map(|it| it.gain.as_ref()).collect();
    let bytes: u64 = gains.iter().map(|gain| gain.bytes).sum();
    let of = format!("of {} that was looked at", format_bytes(bytes));
    let value = format_bytes(seen.misplaced_bytes());
    (!gains.is_empty()).then_some(("Misplaced at the end", value, of))
}

fn gain(seen: &WatchReport) -> Option<Figure> {
    let gain = seen.process()?.gain.as_ref()?;
    let [now, there] = [gain.distance_milli, gain.distance_milli_there].map(distance);
    let more = format!("mean distance {now}, on node {} {there}", gain.destination);
    Some(("A move would gain", Quantity::Share.label(gain.gain_ppm), more))
}

/// Formats a mean distance, of which 10 is local.
pub fn distance(milli: u64) -> String {
    format!("{}.{}", milli / 1000, milli % 1000 / 100)
}

fn by_nodeward(seen: &WatchReport, moved: &MovedMemory<'_>) -> Figure {
    let count = match moved.count() {
        1 => "in 1 move".to_owned(),
        count => format!("in {count} moves"),
    };
    let of = if seen.subject.is_some() { " of this process" } else { "" };
    ("Moved by nodeward", format_bytes(moved.shown_bytes), format!("{count}{of}"))
}

fn by_others(seen: &WatchReport, moved: &MovedMemory<'_>) -> Figure {
    let bytes = moved.others_bytes(seen);
    let value = match bytes {
        None => "not known".to_owned(),
        Some(0) => format_bytes(0),
        Some(bytes) => format!("~ {}", format_bytes(bytes)),
    };
    ("Moved by others", value, "on the whole machine".to_owned())
}
