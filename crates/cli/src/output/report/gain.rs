//! What it would gain: misplaced memory, and what the balancer would do.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use nodeward_balancer::ProcessRow;
use nodeward_model::Pid;
use nodeward_model::units::{format_bytes, format_ns};

use super::bands::Bands;
use super::blocks::{begin_section, cell, number, paragraph, table, words};
use super::markup::{Element, element};
use super::memory::on_nodes;
use super::scale::Quantity;
use super::summary::distance;
use crate::output::{balance, explain};
use crate::results::ProcessExplanation;
use crate::results::observation::{ByNode, FollowedProcess, WatchReport, local_share_ppm, sum};

/// Processes with a row of their own.
const ROWS_MAX: usize = 40;

/// Formats the section.
pub fn section(seen: &WatchReport, bands: &Bands) -> Option<Element> {
    let section = begin_section("What it would gain").child(paragraph(
        "Misplaced is memory away from the CPU time of its process. The gain is the part of the \
         mean distance to memory (10 is local) that would go away if all memory was on the node \
         nearest to the CPU time. Both are by residency and the CPU time of the last moments.",
    ));
    let estimate = paragraph("What the balancer would do is as ")
        .child(element("code").text("nodeward balance --dry-run"))
        .text(" tells it: its rule also weighs what a move costs.");
    Some(match seen.subject {
        Some(pid) => section.children(one(seen, pid)),
        None => {
            let rows = processes(seen, bands);
            section.child(estimate).child(bands.legend()).child(rows).children(rest(seen))
        }
    })
}

/// Formats what one process would gain, in the words of `explain`.
fn one(seen: &WatchReport, pid: Pid) -> Vec<Element> {
    let mut said = Vec::new();
    match seen.process().and_then(|process| process.gain.as_ref()) {
        Some(gain) => said.push(paragraph(format!(
            "At the end {} of {} is misplaced. On node {} the mean distance would be {} instead of \
             {}: a gain of {}.",
            format_bytes(gain.misplaced_bytes),
            format_bytes(gain.bytes),
            gain.destination,
            distance(gain.distance_milli_there),
            distance(gain.distance_milli),
            Quantity::Share.label(gain.gain_ppm),
        ))),
        None => said.push(paragraph(
            "There is no figure: the process did not run in the last moments, or its memory was \
             not looked at.",
        )),
    }
    if let Some(text) = explanation(seen, pid) {
        said.push(element("h3").text("What the balancer would do with it"));
        said.push(element("pre").text(text));
    }
    said
}

fn explanation(seen: &WatchReport, pid: Pid) -> Option<String> {
    let report = seen.estimate.clone()?;
    let row = report.processes.iter().find(|row| row.pid == pid).cloned();
    let row = row.map_or_else(|| seen.undecided.map(Err), |row| Some(Ok(row)))?;
    let explained = ProcessExplanation { pid, report: report.into(), row };
    Some(explain::process(&explained).text)
}

fn processes(seen: &WatchReport, bands: &Bands) -> Element {
    let columns = [
        ("process", false),
        ("memory", true),
        ("CPU time", true),
        ("threads by node", false),
        ("local", true),
        ("misplaced", true),
        ("gain", true),
        ("the balancer would", false),
    ];
    let decided: BTreeMap<Pid, &ProcessRow> = match &seen.estimate {
        Some(report) => report.processes.iter().map(|row| (row.pid, row)).collect(),
        None => BTreeMap::new(),
    };
    let row = |process: &&FollowedProcess| -> Vec<Element> {
        let memory = process.memory();
        let gain = process.gain.as_ref();
        let local = gain.and_then(|it| local_share_ppm(&it.cpu_share_ppm, &it.node_bytes));
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let memory_bar = memory.map(|memory| bar(bands, memory, on_nodes(memory)));
        let cpu_bar = bar(bands, &process.cpu_ns, times(&process.cpu_ns));
        vec![
            words(name(process)),
            number(or_dash(memory.map(|memory| format_bytes(sum(memory))))).children(memory_bar),
            number(format_ns(sum(&process.cpu_ns))).child(cpu_bar),
            cell(balance::by_node(&process.threads, ToString::to_string)),
            number(or_dash(local.map(|ppm| Quantity::Share.label(ppm)))),
            number(or_dash(gain.map(|gain| format_bytes(gain.misplaced_bytes)))),
            number(or_dash(gain.map(|gain| Quantity::Share.label(gain.gain_ppm)))),
            words(or_dash(decided.get(&process.pid).map(|row| would(seen, row)))),
        ]
    };
    table(&columns, ranked(seen).iter().take(ROWS_MAX).map(row).collect())
}

/// The process with most misplaced memory first, then those with most memory.
fn ranked(seen: &WatchReport) -> Vec<&FollowedProcess> {
    let mut all: Vec<_> = seen.processes.iter().collect();
    let misplaced = |process: &FollowedProcess| process.gain.as_ref().map(|it| it.misplaced_bytes);
    all.sort_by_key(|it| (Reverse(misplaced(it)), Reverse(it.most_bytes()), it.pid));
    all
}

fn name(process: &FollowedProcess) -> String {
    let name = format!("{} ({})", process.name, process.pid);
    match (&process.obstacle, process.ended_ns) {
        (Some(obstacle), _) => format!("{name}: {obstacle}"),
        (None, Some(_)) => format!("{name}, ended"),
        (None, None) => name,
    }
}

fn would(seen: &WatchReport, row: &ProcessRow) -> String {
    let Some(report) = &seen.estimate else { return String::new() };
    let home = row
        .home
        .as_ref()
        .map_or_else(|| "no home".to_owned(), |home| format!("home on {}", balance::home(home)));
    let numbers = &row.decision.numbers;
    let bytes = format_bytes(numbers.pages_planned.saturating_mul(report.page_bytes));
    let moves = match numbers.pages_planned {
        0 => String::new(),
        _ => format!(
            "; move {bytes}, saves {}, costs {}",
            format_ns(numbers.gain_ns),
            format_ns(numbers.cost_ns)
        ),
    };
    let threads = match numbers.threads_nudged {
        0 => String::new(),
        1 => "; bring 1 thread".to_owned(),
        count => format!("; bring {count} threads"),
    };
    format!("{home} ({}){threads}{moves}", balance::reasons(&row.decision))
}

fn times(cpu_ns: &ByNode) -> String {
    balance::by_node(cpu_ns, |&ns| format_ns(ns))
}

/// Draws parts of a whole by node.
fn bar(bands: &Bands, by_node: &ByNode, title: String) -> Element {
    let whole = sum(by_node).max(1);
    let mut at = 0;
    let part = |((_, class), value): ((String, &'static str), u64)| {
        let width = u64::try_from(u128::from(value) * 1000 / u128::from(whole)).unwrap_or(1000);
        let rect = element("rect").class(class).with("x", at).with("y", 0);
        at += width;
        rect.with("width", width).with("height", 10)
    };
    let parts: Vec<_> = bands.names().into_iter().zip(bands.values(by_node)).map(part).collect();
    element("svg")
        .class("bar")
        .with("viewBox", "0 0 1000 10")
        .with("preserveAspectRatio", "none")
        .with("role", "img")
        .with("aria-label", &title)
        .child(element("title").text(title))
        .children(parts)
}

/// Formats what has no row.
fn rest(seen: &WatchReport) -> Vec<Element> {
    let ranked = ranked(seen);
    let hidden = ranked.get(ROWS_MAX..).unwrap_or_default();
    let memory = |process: &&FollowedProcess| process.memory().map_or(0, sum);
    let misplaced = |process: &&FollowedProcess| process.gain.as_ref().map(|it| it.misplaced_bytes);
    let hidden = (!hidden.is_empty()).then(|| {
        format!(
            "{} further processes have {} of memory, of which {} is misplaced.",
            hidden.len(),
            format_bytes(hidden.iter().map(memory).sum()),
            format_bytes(hidden.iter().filter_map(misplaced).sum()),
        )
    });
    let unfollowed = seen.unfollowed;
    let unfollowed = (unfollowed.processes > 0).then(|| {
        format!(
            "{} processes with {} of memory were not followed: they have less than 16 MiB each, or \
             came when 512 were followed.",
            unfollowed.processes,
            format_bytes(unfollowed.bytes)
        )
    });
    hidden.into_iter().chain(unfollowed).map(|words| paragraph(words).class("note")).collect()
}
