//! Where memory and threads were over time, and stalls.

use std::collections::BTreeSet;

use nodeward_model::units::format_bytes;
use nodeward_model::{MappingKind, NodeId};

use super::bands::Bands;
use super::blocks::{begin_section, paragraph};
use super::chart::{ChartPoint, Shape, TimeChart};
use super::markup::{Element, element};
use super::moved::MovedMemory;
use super::scale::Quantity;
use crate::results::observation::{ByNode, FollowedProcess, MemoryLook, WatchMoment, WatchReport};

/// Processes with a picture of their own.
const PICTURES_MAX: usize = 9;

/// The section about all memory: of the process, or in use on the machine.
pub fn section(seen: &WatchReport, bands: &Bands, moved: &MovedMemory<'_>) -> Option<Element> {
    let (what, title) = match seen.subject {
        Some(_) => ("All memory of the process, by the node that it is on.", "memory by node"),
        None => (
            "All memory in use on the machine, by the node that it is on: of processes, of cached \
             files and of the kernel.",
            "memory in use, by node",
        ),
    };
    let named = ("memory", title);
    let chart = match seen.process() {
        Some(process) => {
            let looks = process.looks.iter().map(|look| (look.at_ns, &look.bytes));
            TimeChart::by_node(named, Quantity::Bytes, bands, looks, seen.watched_ns)
        }
        None => {
            let moments = seen.moments.iter().map(|it| (it.at_ns, &it.node_used_bytes));
            TimeChart::by_node(named, Quantity::Bytes, bands, moments, seen.watched_ns)
        }
    };
    let marks_said = match moved.marks.len() {
        0 => String::new(),
        _ => " Bars with a number at the top are moves by nodeward.".to_owned(),
    };
    let chart = TimeChart { marks: &moved.marks, ..chart };
    Some(
        begin_section("Where memory was")
            .child(paragraph(format!("{what}{marks_said}")))
            .child(bands.legend())
            .child(chart.figure()),
    )
}

/// The section about the share of local accesses.
pub fn locality(seen: &WatchReport, moved: &MovedMemory<'_>) -> Option<Element> {
    let point = |it: &WatchMoment| -> ChartPoint { (it.at_ns, it.local_ppm.map(|ppm| vec![ppm])) };
    let chart = TimeChart {
        id: "local".to_owned(),
        title: "local share of accesses, by residency".to_owned(),
        quantity: Quantity::Share,
        shape: Shape::Lines,
        bands: vec![("local share".to_owned(), "n2")],
        points: seen.moments.iter().map(point).collect(),
        end_ns: seen.watched_ns,
        is_small: false,
        marks: &moved.marks,
    };
    let section = begin_section("How much of it was local").child(paragraph(
        "The share of accesses that find their memory on their own node, if each thread uses all \
         memory of its process alike. Who really uses which page was not measured. The line is \
         interrupted where nothing ran, or where memory was not looked at yet.",
    ));
    Some(section.child(chart.figure()))
}

/// The section with a picture for each kind of mapping, or for each of the largest processes.
pub fn parts(seen: &WatchReport, bands: &Bands) -> Option<Element> {
    let charts = match seen.process() {
        Some(process) => by_kind(seen, bands, process),
        None => by_process(seen, bands),
    };
    let (title, words) = match seen.subject {
        Some(_) => ("By kind of mapping", "The same memory, apart for each kind of mapping."),
        None => (
            "The largest processes",
            "Memory of the processes with most of it, without files that they map. They were \
             looked at in turn, so that steps may be late; the table of processes below has more \
             of them.",
        ),
    };
    let section = begin_section(title).child(paragraph(words)).child(bands.legend());
    let figures = charts.iter().map(TimeChart::figure);
    (!charts.is_empty()).then(|| section.child(element("div").class("many").children(figures)))
}

fn by_kind(
    seen: &WatchReport,
    bands: &Bands,
    process: &FollowedProcess,
) -> Vec<TimeChart<'static>> {
    let kinds = process.looks.iter().flat_map(|look| look.kinds.keys().copied());
    let kinds: BTreeSet<_> = kinds.collect();
    let are_several = kinds.len() > 1;
    let nothing = ByNode::new();
    let chart = |kind: MappingKind| {
        let of = |look: &MemoryLook| (look.at_ns, look.kinds.get(&kind).cloned());
        let points: Vec<_> = process.looks.iter().map(of).collect();
        let points = points.iter().map(|(at, bytes)| (*at, bytes.as_ref().unwrap_or(&nothing)));
        let id = format!("kind-{}", kind.name());
        small(TimeChart::by_node(
            (&id, kind.name()),
            Quantity::Bytes,
            bands,
            points,
            seen.watched_ns,
        ))
    };
    // One kind is all the memory, which has its picture.
    kinds.into_iter().filter(|_| are_several).map(chart).collect()
}

fn by_process(seen: &WatchReport, bands: &Bands) -> Vec<TimeChart<'static>> {
    let mut largest: Vec<_> = seen.processes.iter().filter(|it| !it.looks.is_empty()).collect();
    largest.sort_by_key(|process| (std::cmp::Reverse(process.most_bytes()), process.pid));
    let chart = |process: &FollowedProcess| {
        let points = process.looks.iter().map(|look| (look.at_ns, &look.bytes));
        let id = format!("process-{}-{}", process.pid, process.started_ticks);
        let title = format!("{} ({})", process.name, process.pid);
        small(TimeChart::by_node((&id, &title), Quantity::Bytes, bands, points, seen.watched_ns))
    };
    largest.into_iter().take(PICTURES_MAX).map(chart).collect()
}

fn small(chart: TimeChart<'static>) -> TimeChart<'static> {
    TimeChart { is_small: true, ..chart }
}

/// The section about CPU time by node.
pub fn threads(seen: &WatchReport, bands: &Bands, moved: &MovedMemory<'_>) -> Option<Element> {
    let used = |(before, now): (&WatchMoment, &WatchMoment)| {
        let took = u128::from(now.at_ns.saturating_sub(before.at_ns).max(1));
        let milli = |(&node, &ns): (&NodeId, &u64)| {
            (node, u64::try_from(u128::from(ns) * 1000 / took).unwrap_or(u64::MAX))
        };
        (now.at_ns, now.cpu_ns.iter().map(milli).collect::<ByNode>())
    };
    let steps = seen.moments.iter().zip(seen.moments.iter().skip(1));
    let used: Vec<_> = steps.map(used).collect();
    let points = used.iter().map(|(at, cpus)| (*at, cpus));
    let named = ("cpus", "CPUs in use, by node");
    let chart = TimeChart::by_node(named, Quantity::MilliCpus, bands, points, seen.watched_ns);
    let chart = TimeChart { marks: &moved.marks, ..chart };
    let whose = if seen.subject.is_some() { "the process" } else { "all processes" };
    let section = begin_section("Where threads ran").child(paragraph(format!(
        "CPU time of {whose}, by the node of the CPU, in CPUs. {}",
        thread_counts(seen)
    )));
    Some(section.child(bands.legend()).child(chart.figure()))
}

fn thread_counts(seen: &WatchReport) -> String {
    let Some(last) = seen.moments.iter().rfind(|it| !it.threads.is_empty()) else {
        return "No thread was seen.".to_owned();
    };
    let on = |(node, count): (&NodeId, &u64)| match count {
        1 => format!("1 on node {node}"),
        count => format!("{count} on node {node}"),
    };
    let counts: Vec<_> = last.threads.iter().filter(|it| *it.1 > 0).map(on).collect();
    format!("Threads at the end, by the node where they ran last: {}.", counts.join(", "))
}

/// The section about stalls for want of memory.
pub fn stalls(seen: &WatchReport) -> Option<Element> {
    let is_known = seen.moments.iter().any(|it| it.stalled_ns.is_some());
    let stalled_ns: u64 = seen.moments.iter().filter_map(|it| it.stalled_ns).sum();
    let words = match (is_known, stalled_ns) {
        (false, _) => {
            "Whether tasks stood still for want of memory is not known on this machine.".to_owned()
        }
        (true, 0) => "No task on the machine stood still for want of memory.".to_owned(),
        (true, ns) => format!(
            "For {} of the time some task on the machine stood still for want of memory \
             (/proc/pressure/memory, without compaction).",
            Quantity::Share.label(ppm(ns, seen.watched_ns))
        ),
    };
    let holds = paragraph(
        "How long single pages were held while they moved was not measured; the account of a move \
         with ",
    )
    .child(element("code").text("--stall"))
    .text(" has the longest time.");
    let section = begin_section("Stalls").child(paragraph(words)).child(holds.class("note"));
    Some(section.children((stalled_ns > 0).then(|| stall_chart(seen).figure())))
}

fn stall_chart(seen: &WatchReport) -> TimeChart<'static> {
    let steps = seen.moments.iter().zip(seen.moments.iter().skip(1));
    let point = |(before, now): (&WatchMoment, &WatchMoment)| -> ChartPoint {
        let took = now.at_ns.saturating_sub(before.at_ns);
        (now.at_ns, now.stalled_ns.map(|ns| vec![ppm(ns, took)]))
    };
    TimeChart {
        id: "stalls".to_owned(),
        title: "time in which some task was stalled".to_owned(),
        quantity: Quantity::Share,
        shape: Shape::Lines,
        bands: vec![("stalled".to_owned(), "n1")],
        points: steps.map(point).collect(),
        end_ns: seen.watched_ns,
        is_small: false,
        marks: &[],
    }
}

fn ppm(part: u64, whole: u64) -> u64 {
    let ppm = u128::from(part) * 1_000_000 / u128::from(whole.max(1));
    u64::try_from(ppm).unwrap_or(u64::MAX).min(1_000_000)
}

/// Formats memory by node: `259 MiB on node 0, 2 MiB on node 1`.
pub fn on_nodes(bytes: &ByNode) -> String {
    let on = bytes.iter().filter(|(_, bytes)| **bytes > 0);
    let on: Vec<_> = on.map(|(node, &it)| format!("{} on node {node}", format_bytes(it))).collect();
    match on.len() {
        0 => "none".to_owned(),
        1..=4 => on.join(", "),
        more => format!("{}, and on {} further nodes", on[..3].join(", "), more - 3),
    }
}
