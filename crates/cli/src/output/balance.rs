//! Rounds of the balancer: a table, a line for each new decision, JSON for programs.

mod decision_text;
pub mod explanation;
mod line_limiter;
pub mod notices;
mod segment_text;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use nodeward_balancer::{GroupRow, ProcessRow, RoundReport};
use nodeward_model::units::{format_bytes, format_ns};
use nodeward_policy::placement::{NodeSum, Reason, Verdict};
use serde_json::{Value, json};

pub use decision_text::{
    action, by_node, change_line, cpus, decision, group_change_line, home, reasons,
};
pub use line_limiter::{LineLimiter, LineSubject};
pub use segment_text::change_line as segment_change_line;

/// Formats a round for programs, in one line.
pub fn json(report: &RoundReport) -> Value {
    let mut value = json!(report);
    value["schema"] = json!("nodeward.balance/1");
    value
}

/// Formats a round as a table: observations, decisions and actions.
pub fn table(report: &RoundReport) -> String {
    let (shown, left): (Vec<_>, Vec<_>) = report.processes.iter().partition(|row| is_shown(row));
    let mut rows = vec![HEADS.map(str::to_owned)];
    rows.extend(shown.iter().map(|row| cells(row, report)));
    let mut text = match shown.is_empty() {
        true => "no process has a home\n".to_owned(),
        false => columns(&rows),
    };
    text += &left_alone(&left);
    text += &group_lines(report);
    text += &segment_text::lines(report);
    text += &nodes(&report.nodes);
    text += &footer(report);
    text
}

/// Formats a round in a few words, for status reports.
pub fn status(report: &RoundReport) -> String {
    let homes = report.processes.iter().filter(|row| row.home.is_some()).count();
    let pages = report.processes.iter().map(|row| row.decision.numbers.pages_away).sum::<u64>();
    let away = format_bytes(pages * report.page_bytes);
    if report.stands_back {
        return notices::standing_back(&report.rivals);
    }
    let state = if report.settled { "settled" } else { "at work" };
    format!("{state}: {homes} processes have a home, {away} of their memory is elsewhere")
}

const HEADS: [&str; 9] =
    ["PID", "NAME", "HOME", "THREADS", "MEMORY", "DECISION", "REASON", "SAVES", "COSTS"];

/// Returns whether a process has its own row. Processes that are left alone are counted by reason:
/// most machines have hundreds of them.
fn is_shown(row: &ProcessRow) -> bool {
    row.home.is_some() || row.decision.verdict != Verdict::Left
}

fn cells(row: &ProcessRow, report: &RoundReport) -> [String; 9] {
    let time = |ns: u64| if ns == 0 { "-".to_owned() } else { format_ns(ns) };
    [
        row.pid.to_string(),
        row.name.to_string(),
        row.home.as_ref().map_or_else(|| "-".to_owned(), home),
        by_node(&row.threads, ToString::to_string),
        by_node(&row.pages, |&pages| format_bytes(pages * report.page_bytes)),
        decision(row.into(), report),
        reasons(&row.decision),
        time(row.decision.numbers.gain_ns),
        time(row.decision.numbers.cost_ns),
    ]
}

/// Aligns cells in columns; the first column to the right, the others to the left.
fn columns<const N: usize>(rows: &[[String; N]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..N).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = format!("{:>1$}", row[0], widths[0].max(7));
        for (cell, width) in row.iter().zip(&widths).skip(1) {
            let _ = write!(line, "  {cell:<width$}");
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

/// Formats the groups of a round, a line for each.
fn group_lines(report: &RoundReport) -> String {
    let line = |row: &GroupRow| {
        let at = row.home.as_ref().map_or_else(|| "no node".to_owned(), home);
        let threads = by_node(&row.threads, ToString::to_string);
        let memory = by_node(&row.residency, |&pages| format_bytes(pages * report.page_bytes));
        let decision = decision(row.into(), report);
        let reasons = reasons(&row.decision);
        format!(
            "group {} of {} processes: home {at}; threads on nodes {threads}; memory on nodes \
             {memory}; {decision} ({reasons})\n",
            row.name,
            row.processes.len()
        )
    };
    report.groups.iter().map(line).collect()
}

fn left_alone(left: &[&ProcessRow]) -> String {
    let mut by_reason: BTreeMap<Reason, usize> = BTreeMap::new();
    for row in left {
        *by_reason.entry(row.decision.reason).or_default() += 1;
    }
    if by_reason.is_empty() {
        return String::new();
    }
    let parts: Vec<_> = by_reason.iter().map(|(why, count)| format!("{count} {why}")).collect();
    format!("left alone: {} (nodeward explain REASON tells more)\n", parts.join(", "))
}

fn nodes(nodes: &BTreeMap<nodeward_model::NodeId, NodeSum>) -> String {
    let line = |(node, sum): (&nodeward_model::NodeId, &NodeSum)| {
        format!(
            "node {node}: {} CPUs of work at home, {} at most; {} of it runs here, beside {} of \
             others\n",
            cpus(sum.home_load_ppm),
            cpus(sum.limit_ppm),
            cpus(sum.local_load_ppm),
            cpus(sum.other_load_ppm),
        )
    };
    nodes.iter().map(line).collect()
}

fn footer(report: &RoundReport) -> String {
    let moved = format_bytes(report.moved_pages * report.page_bytes);
    let did = match (report.acted, report.nudged, report.moved_pages) {
        (false, ..) => "nothing was done, this only tells what would be".to_owned(),
        (true, 0, 0) => "nothing was to be done".to_owned(),
        (true, nudged, _) => format!("brought home: {nudged} threads, {moved}"),
    };
    let cost = &report.cost;
    let back = match report.stands_back {
        true => format!("{}\n", notices::standing_back(&report.rivals)),
        false => String::new(),
    };
    format!(
        "{did}\n{back}{} threads seen, {} processes looked into; CPU time: {} looking, {} \
         deciding, {} moving\n",
        report.threads,
        report.looked,
        format_ns(cost.looking_ns),
        format_ns(cost.deciding_ns),
        format_ns(cost.moving_ns),
    )
}
