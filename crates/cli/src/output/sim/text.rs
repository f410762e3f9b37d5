//! Formats a run to fit one screen.

use std::fmt::Write as _;
use std::ops::Range;

use nodeward_model::Escape as _;
use nodeward_model::units::{format_bytes, format_ns};
use nodeward_sim::{
    ActionMoveReport, MemoryReport, Moment, NodeReport, Section, SimReport, WorkloadReport,
};

use super::SimOutput;
use crate::output::balance;
use crate::output::residency::{bar, percent};
use crate::results::simulation::{EndReason, SimulationRun};

/// Nodes with a row of their own; the last row of a larger machine is for all the others.
const NODES_DRAWN: usize = 8;
/// Maximum number of listed actions; more are counted.
const ACTIONS_LISTED: usize = 8;
/// Maximum number of listed moves per action.
const MOVES_LISTED: usize = 4;
/// Kinds of CPU time per line.
const TIMES_IN_LINE: usize = 4;

/// Formats a run for people. Empty parts are left out.
pub fn text(told: &SimOutput<'_>) -> String {
    let mut text = head(told);
    for section in told.sections {
        let part = section_text(*section, &told.run.report);
        if !part.is_empty() {
            text += "\n";
            text += &part;
        }
    }
    text + &balanced(told.run)
}

/// What nodeward did, and its last round.
fn balanced(run: &SimulationRun) -> String {
    let Some(balanced) = &run.balanced else { return String::new() };
    let (rounds, pages) = (counted(balanced.rounds, "round"), balanced.moved_pages);
    let mut text = format!("\nnodeward: {rounds}, {} moved\n", counted(pages, "page"));
    if let Some(last) = &balanced.last {
        let _ = writeln!(text, "the last round, {} after the start:", format_ns(last.at_ns));
        text += &balance::table(last);
    }
    text
}

fn head(told: &SimOutput<'_>) -> String {
    let report = &told.run.report;
    let mut text = match report.about.is_empty() {
        true => format!("{}\n", report.scenario.escaped()),
        false => format!("{}: {}\n", report.scenario.escaped(), report.about.escaped()),
    };
    let machine = &report.machine;
    let _ = writeln!(
        text,
        "{}, {}, {} of memory; seed {}",
        counted(machine.nodes as u64, "node"),
        counted(machine.cpus as u64, "CPU"),
        format_bytes(machine.memory_bytes),
        report.seed,
    );
    let wall_ns = told.run.wall_ns.max(1);
    let why = match told.run.ended {
        EndReason::VirtualTime => "",
        EndReason::WallTime => ", ended by --limit-wall",
        EndReason::Interrupted => ", interrupted",
    };
    let _ = writeln!(
        text,
        "simulated {} in {} ({:.2} x real time, {} events){why}",
        format_ns(report.virtual_ns),
        format_ns(wall_ns),
        report.virtual_ns as f64 / wall_ns as f64,
        number(report.events),
    );
    let same = match told.is_deterministic {
        None => "",
        Some(true) => "; a second run came to the same",
        Some(false) => "; a second run came to something else",
    };
    text + &format!("trace {}{same}\n", report.trace_hash)
}

fn section_text(section: Section, report: &SimReport) -> String {
    match section {
        Section::Memory => memory(report),
        Section::Workloads => workloads(report),
        Section::Nodes => nodes(&report.nodes, report.virtual_ns),
        Section::Actions => actions(report),
        Section::Time => time(report),
        Section::Latencies => latencies(report),
        Section::Counters => counters(report),
        Section::Curves => String::new(), // --plot draws them
    }
}

/// Formats the memory before and after, side by side.
fn memory(report: &SimReport) -> String {
    let pictures = &report.memory;
    if pictures.iter().all(|memory| memory.snapshot.pages.iter().all(|&pages| pages == 0)) {
        return String::new();
    }
    let titles = pictures.iter().map(|memory| format!("{:<44}", title(memory)));
    let mut text = format!("{:<12}{}", "MEMORY", titles.collect::<String>());
    text = format!("{}\n", text.trim_end());
    let (drawn, rest) = report.nodes.split_at(drawn(report.nodes.len()));
    for (index, node) in drawn.iter().enumerate() {
        text += &memory_row(&format!("node {}", node.node), report, index..index + 1);
    }
    if !rest.is_empty() {
        text += &memory_row(&others(rest.len()), report, drawn.len()..report.nodes.len());
    }
    let cells = pictures.iter().map(|memory| match memory.local_ppm {
        Some(share) => {
            let window = format!("in {}", format_ns(memory.window_ns));
            format!("{} {:>8} {window:>10}    ", bar(share), percent(share))
        }
        None => " ".repeat(44),
    });
    let row = format!("  {:<10}{}", "local", cells.collect::<String>());
    text + &match pictures.iter().any(|memory| memory.local_ppm.is_some()) {
        true => format!("{}\n", row.trim_end()),
        false => String::new(),
    }
}

/// Formats the memory on some nodes, before and after.
fn memory_row(name: &str, report: &SimReport, nodes: Range<usize>) -> String {
    let cells = report.memory.iter().map(|memory| {
        let pages = &memory.snapshot.pages;
        let here = pages[nodes.clone()].iter().sum::<u64>();
        let share = ppm(here, pages.iter().sum());
        let bytes = format_bytes(here * report.machine.page_bytes);
        format!("{} {:>8} {bytes:>10}    ", bar(share), percent(share))
    });
    let row = format!("  {name:<10}{}", cells.collect::<String>());
    format!("{}\n", row.trim_end())
}

/// Returns how many of `nodes` nodes have a row of their own.
fn drawn(nodes: usize) -> usize {
    if nodes > NODES_DRAWN { NODES_DRAWN - 1 } else { nodes }
}

fn others(nodes: usize) -> String {
    format!("{nodes} more")
}

fn title(memory: &MemoryReport) -> String {
    let at_ns = memory.snapshot.at_ns;
    let (when, at_ns) = match memory.snapshot.moment {
        Moment::FirstAction => ("before the first action", at_ns + 1), // time of that moment
        Moment::Populated => ("when all of it was there", at_ns),
        Moment::End => ("at the end", at_ns),
    };
    format!("{when} ({})", format_ns(at_ns))
}

fn workloads(report: &SimReport) -> String {
    if report.workloads.is_empty() {
        return "no programs\n".to_owned();
    }
    let mut text = format!(
        "{:<16}{:>10}{:>9}{:>9}{:>9}  {:<24}{:>16}\n",
        "WORKLOAD", "PROCESSES", "THREADS", "CPUS", "LOCAL", "DONE", "IN A SECOND"
    );
    for workload in &report.workloads {
        text += &workload_row(workload, report);
    }
    text
}

fn workload_row(workload: &WorkloadReport, report: &SimReport) -> String {
    let cpus = workload.cpu_ns as f64 / report.virtual_ns.max(1) as f64;
    // Lines are shown as memory, like bandwidth.
    let rate = match workload.unit {
        "lines" => {
            let bytes = workload.done_per_s.saturating_mul(report.machine.line_bytes);
            format!("{}/s", format_bytes(bytes))
        }
        _ => number(workload.done_per_s),
    };
    format!(
        "{:<16}{:>10}{:>9}{cpus:>9.2}{:>9}  {:<24}{rate:>16}\n",
        workload.name,
        workload.processes,
        u64::from(workload.processes) * u64::from(workload.threads),
        workload.local_ppm.map_or("-".to_owned(), percent),
        format!("{} {}", number(workload.done), workload.unit),
    )
}

fn nodes(nodes: &[NodeReport], virtual_ns: u64) -> String {
    let mut text = format!(
        "{:<8}{:>5}{:>9}{:>12}{:>12}{:>16}{:>16}\n",
        "NODE", "CPUS", "BUSY", "MEMORY", "FREE", "DELIVERED", "AT MOST"
    );
    let (drawn, rest) = nodes.split_at(drawn(nodes.len()));
    for node in drawn {
        text += &node_row(&node.node.to_string(), std::slice::from_ref(node), virtual_ns);
    }
    match rest.is_empty() {
        true => text,
        false => text + &node_row(&others(rest.len()), rest, virtual_ns),
    }
}

/// Formats the sum of some nodes.
fn node_row(name: &str, nodes: &[NodeReport], virtual_ns: u64) -> String {
    let sum = |of: fn(&NodeReport) -> u64| nodes.iter().map(of).sum::<u64>();
    let cpus = sum(|node| node.cpus as u64);
    let busy = ppm(sum(|node| node.busy_ns), virtual_ns.saturating_mul(cpus));
    let busy = if cpus == 0 { "-".to_owned() } else { percent(busy) };
    let rate = |rate| format!("{}/s", format_bytes(rate));
    format!(
        "{name:<8}{cpus:>5}{busy:>9}{:>12}{:>12}{:>16}{:>16}\n",
        format_bytes(sum(|node| node.memory_bytes)),
        format_bytes(sum(|node| node.free_bytes)),
        rate(sum(|node| node.bytes_per_s)),
        rate(sum(|node| node.bytes_per_s_max)),
    )
}

fn actions(report: &SimReport) -> String {
    if report.actions.is_empty() {
        return String::new();
    }
    let mut text = "ACTIONS\n".to_owned();
    for (index, action) in report.actions.iter().take(ACTIONS_LISTED).enumerate() {
        let _ = writeln!(text, "  at {:<10}{}", format_ns(action.at_ns), action.what);
        let moves = report.moves.iter().filter(|moved| moved.action == index);
        moves.clone().take(MOVES_LISTED).for_each(|moved| text += &move_row(moved, report));
        if let Some(more) = moves.count().checked_sub(MOVES_LISTED + 1) {
            let _ = writeln!(text, "    and {} more", more + 1);
        }
    }
    match report.actions.len().saturating_sub(ACTIONS_LISTED) {
        0 => text,
        more => text + &format!("  and {more} more\n"),
    }
}

fn move_row(moved: &ActionMoveReport, report: &SimReport) -> String {
    let page_bytes = report.machine.page_bytes;
    let took = moved.ended_ns.unwrap_or(report.virtual_ns).saturating_sub(moved.began_ns);
    let left = match (moved.account.skipped_total(), moved.ended_ns) {
        (0, Some(_)) => String::new(),
        (0, None) => ", not at its end".to_owned(),
        (left, _) => format!(", {} pages stayed behind", number(left)),
    };
    format!(
        "    node {} to node {}: {} in {} ({}/s){left}\n",
        moved.from,
        moved.to,
        format_bytes(moved.account.moved * page_bytes),
        format_ns(took),
        format_bytes(moved.pages_per_s.saturating_mul(page_bytes)),
    )
}

fn latencies(report: &SimReport) -> String {
    if report.latencies.is_empty() {
        return String::new();
    }
    let mut text =
        format!("{:<16}{:>16}{:>12}{:>12}{:>12}\n", "LATENCY", "COUNT", "P50", "P99", "MAX");
    for (name, took) in &report.latencies {
        let [p50, p99, max] = [took.p50_ns, took.p99_ns, took.max_ns].map(format_ns);
        let _ = writeln!(text, "{name:<16}{:>16}{p50:>12}{p99:>12}{max:>12}", number(took.count));
    }
    text
}

fn time(report: &SimReport) -> String {
    let all: u64 = report.time_ns.values().sum();
    if all == 0 {
        return String::new();
    }
    let part = |(what, &ns): (&&str, &u64)| {
        format!("{what} {} ({})", format_ns(ns), percent(ppm(ns, all)))
    };
    let parts: Vec<_> = report.time_ns.iter().map(part).collect();
    let lines: Vec<_> = parts.chunks(TIMES_IN_LINE).map(|parts| parts.join(", ")).collect();
    format!("CPU time: {}\n", lines.join(",\n          "))
}

fn counters(report: &SimReport) -> String {
    let shown = |name: &str, value: u64| match name.ends_with("_ns") {
        true => format_ns(value),
        false => number(value),
    };
    let mut text = String::new();
    for (name, &value) in &report.counters {
        let words = name.trim_end_matches("_ns").replace('_', " ");
        let _ = writeln!(text, "  {words:<20}{:>16}", shown(name, value));
    }
    if text.is_empty() { text } else { format!("COUNTED\n{text}") }
}

/// Returns a part of a whole in millionths; 0 if the whole is 0.
fn ppm(part: u64, whole: u64) -> u64 {
    let ppm = (u128::from(part) * 1_000_000).checked_div(u128::from(whole)).unwrap_or(0);
    u64::try_from(ppm).unwrap_or(u64::MAX)
}

fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Formats a number with thousands separators: `12,345,678`.
fn number(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
