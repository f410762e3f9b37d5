//! Formats the balancer's decision about one process, with reasons and numbers.

use std::fmt::Write as _;

use nodeward_balancer::{ProcessRow, RoundReport, SegmentRow, Undecided};
use nodeward_model::units::{format_bytes, format_ns};
use nodeward_model::{OtherBalancer, Pid};
use nodeward_policy::placement::{Reason, Verdict};
use serde::Serialize;

use super::{by_node, cpus, decision_text, home, notices, segment_text};
use crate::results::ProcessExplanation;

/// Formats it for people.
pub fn text(would: &ProcessExplanation) -> String {
    match &would.row {
        Ok(row) => decided(row, &would.report),
        Err(why) => format!("process {}: nothing is decided: {}\n", would.pid, undecided(*why)),
    }
}

/// The decision for programs.
#[derive(Serialize)]
#[serde(untagged)]
pub enum DecisionDocument<'a> {
    /// The process's row, and what it needs of the round.
    Decided {
        #[serde(flatten)]
        row: &'a ProcessRow,
        page_bytes: u64,
        stands_back: bool,
        rivals: &'a [OtherBalancer],
        mapped_segments: Vec<&'a SegmentRow>,
    },
    /// Why there is no decision.
    Undecided { pid: Pid, undecided: Undecided },
}

/// Returns it for programs.
pub fn document(would: &ProcessExplanation) -> DecisionDocument<'_> {
    let report = &would.report;
    match &would.row {
        Ok(row) => {
            let is_mapped = |one: &&SegmentRow| row.segments.contains(&one.decision.segment);
            DecisionDocument::Decided {
                row,
                page_bytes: report.page_bytes,
                stands_back: report.stands_back,
                rivals: &report.rivals,
                mapped_segments: report.segments.iter().filter(is_mapped).collect(),
            }
        }
        Err(why) => DecisionDocument::Undecided { pid: would.pid, undecided: *why },
    }
}

fn undecided(why: Undecided) -> &'static str {
    match why {
        Undecided::NotThere => "it has no memory of its own, or it has just ended",
        Undecided::NoLoad => "it was seen once, and loads are what happens between two looks",
        Undecided::NotLookedInto => {
            "where its memory is was not looked at: ask again, or have the balancer balance it"
        }
        Undecided::Idle => "it did not run while it was watched; who sleeps needs no home",
    }
}

fn decided(row: &ProcessRow, report: &RoundReport) -> String {
    let numbers = &row.decision.numbers;
    let bytes = |pages: u64| format_bytes(pages * report.page_bytes);
    let mut lines = vec![
        ("why", reason(row.decision.reason)),
        ("load", load(row)),
        ("threads", format!("on nodes {}", by_node(&row.threads, ToString::to_string))),
    ];
    lines.extend(threads(row).map(|words| ("", words)));
    lines.push(("memory", memory(row, &bytes)));
    if row.home.is_some() {
        lines.push(("", away(row, &bytes)));
    }
    let of_segments =
        report.segments.iter().filter(|one| row.segments.contains(&one.decision.segment));
    lines.extend(of_segments.map(|one| ("segment", segment_text::explanation(one, report))));
    if let (Some(Reason::Stalled), Some(ppm)) = (row.decision.memory, numbers.stalled_ppm) {
        let words = format!("some task wanted memory for {} % of the time", ppm / 10_000);
        lines.push(("stalls", words));
    }
    if numbers.wait_ns > 0 {
        lines.push(("waits", format!("{} before it is moved again", format_ns(numbers.wait_ns))));
    }
    match row.counted_pages {
        Some(pages) => lines.push(("counts", format!("of who uses which page: {pages} by now"))),
        None if row.decision.counts_wanted => {
            let words =
                "nothing tells which thread uses which page, so that they stay where they are";
            lines.push(("counts", format!("{words}; {}", notices::ACCESS_SOURCES)));
        }
        None => {}
    }
    if report.stands_back {
        let back = notices::standing_back(&report.rivals);
        lines.push(("but", format!("nothing of this is done: {back}")));
    }
    let lines = lines.iter().map(|(name, words)| format!("  {name:<8} {words}\n"));
    let first = format!("process {} ({}): {}\n", row.pid, row.name, verdict(row));
    first + &lines.collect::<String>()
}

fn load(row: &ProcessRow) -> String {
    let numbers = &row.decision.numbers;
    let own = format!("{} CPUs", cpus(numbers.load_ppm));
    if row.home.is_none() {
        return own;
    }
    let (all, most) = (cpus(numbers.node_load_ppm), cpus(numbers.node_limit_ppm));
    format!("{own}; at home there: {all} CPUs of work, {most} at most")
}

fn verdict(row: &ProcessRow) -> String {
    let at = row.home.as_ref().map(home).unwrap_or_default();
    match row.decision.verdict {
        Verdict::Left => "is left alone".to_owned(),
        Verdict::Settles => format!("gets its home on {at}"),
        Verdict::Stays => format!("stays at home on {at}"),
        Verdict::Moves => format!("its home moves to {at}"),
    }
}

fn reason(reason: Reason) -> String {
    format!("{reason}: {}", reason.advice())
}

fn threads(row: &ProcessRow) -> Option<String> {
    let (away, brought) = (row.decision.numbers.threads_away, row.decision.numbers.threads_nudged);
    if away == 0 {
        return row.home.is_some().then(|| "all of them are at home".to_owned());
    }
    let mut words =
        format!("{} away from home, {brought} to be brought there", decision_text::threads(away));
    if let Some(why) = row.decision.threads {
        let _ = write!(words, "; {}", reason(why));
    }
    Some(words)
}

fn memory(row: &ProcessRow, bytes: &impl Fn(u64) -> String) -> String {
    if row.pages.is_empty() {
        return "was not looked at".to_owned();
    }
    format!("on nodes {}", by_node(&row.pages, |&pages| bytes(pages)))
}

fn away(row: &ProcessRow, bytes: &impl Fn(u64) -> String) -> String {
    let numbers = &row.decision.numbers;
    let why = row.decision.memory.map_or_else(String::new, |why| format!("; {}", reason(why)));
    if numbers.pages_away == 0 {
        return format!("none of it is away{why}");
    }
    format!(
        "{} away from home, {} to be moved now; moving all of it costs {} and saves {} within \
         {}{why}",
        bytes(numbers.pages_away),
        bytes(numbers.pages_planned),
        format_ns(numbers.cost_ns),
        format_ns(numbers.gain_ns),
        format_ns(numbers.horizon_ns),
    )
}
