//! Formats decisions in words.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use nodeward_balancer::{Done, GroupRow, Outcome, ProcessRow, RoundReport, Short};
use nodeward_model::units::{format_bytes, format_ns};
use nodeward_policy::placement::{Decision, Home, Reason, Verdict};

/// What is told of a process or a group in a round.
#[derive(Clone, Copy)]
pub struct ReportedSubject<'a> {
    /// Its home.
    pub home: Option<&'a Home>,
    /// The decision about it.
    pub decision: &'a Decision,
    /// Whether that is new.
    pub changed: bool,
    /// What was done with it.
    pub done: &'a Done,
}

impl<'a> From<&'a ProcessRow> for ReportedSubject<'a> {
    fn from(row: &'a ProcessRow) -> Self {
        let ProcessRow { home, decision, changed, done, .. } = row;
        Self { home: home.as_ref(), decision, changed: *changed, done }
    }
}

impl<'a> From<&'a GroupRow> for ReportedSubject<'a> {
    fn from(row: &'a GroupRow) -> Self {
        let GroupRow { home, decision, changed, done, .. } = row;
        Self { home: home.as_ref(), decision, changed: *changed, done }
    }
}

/// Formats a home, in a few characters.
pub fn home(home: &Home) -> String {
    match home {
        Home::Node(node) => node.to_string(),
        Home::Spread(nodes) => format!("{nodes} (spread)"),
        Home::Interleave { threads, memory } => format!("{threads} (memory on {memory})"),
    }
}

/// Formats values by node, such as `0: 3, 1: 5`.
pub fn by_node<N: std::fmt::Display, T>(
    on: &BTreeMap<N, T>,
    show: impl Fn(&T) -> String,
) -> String {
    let parts: Vec<_> = on.iter().map(|(node, what)| format!("{node}: {}", show(what))).collect();
    if parts.is_empty() { "-".to_owned() } else { parts.join(", ") }
}

/// Formats millionths of a CPU as CPUs, with two decimals.
pub fn cpus(ppm: u64) -> String {
    let hundredths = ppm.saturating_add(5_000) / 10_000;
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

/// Returns all reasons of a decision, the one for the home first.
pub fn reasons(decision: &Decision) -> String {
    let all = [Some(decision.reason), decision.threads, decision.memory];
    let names: Vec<_> = all.into_iter().flatten().map(Reason::name).collect();
    names.join(", ")
}

/// Formats the decision about a process or a group, for a table.
pub fn decision(row: ReportedSubject<'_>, report: &RoundReport) -> String {
    let (count, pages) = row.done.brought(row.decision, report.acted);
    action(row.decision.verdict.name(), report.acted, (count, pages * report.page_bytes))
}

/// Formats a verdict by its name, with the threads and bytes that were brought home, or would be if
/// the round did not act.
pub fn action(verdict: &str, acted: bool, (count, bytes): (u32, u64)) -> String {
    let verdict = if verdict == Verdict::Left.name() { "left alone" } else { verdict };
    let does = if acted { "brought" } else { "brings" };
    let nudged = (count > 0).then(|| threads(count));
    let moved = (bytes > 0).then(|| format_bytes(bytes));
    let brought: Vec<String> = nudged.into_iter().chain(moved).collect();
    match brought.is_empty() {
        true => verdict.to_owned(),
        false => format!("{verdict}, {does} {}", brought.join(", ")),
    }
}

pub(super) fn threads(count: u32) -> String {
    format!("{count} thread{}", if count == 1 { "" } else { "s" })
}

/// Formats a line about a process for a new decision, or for the result of an earlier one. `None`
/// if it is of no interest.
pub fn change_line(row: &ProcessRow, report: &RoundReport) -> Option<String> {
    Some(format!("{} ({}): {}", row.name, row.pid, change(row.into(), report)?))
}

/// The same about a group.
pub fn group_change_line(row: &GroupRow, report: &RoundReport) -> Option<String> {
    Some(format!("group {}: {}", row.name, change(row.into(), report)?))
}

/// Formats a new decision, or the result of an earlier one. `None` if it is of no interest: the
/// process is too young, or is settled and stays, with its memory at home; or nothing would be
/// done, and nothing is.
fn change(row: ReportedSubject<'_>, report: &RoundReport) -> Option<String> {
    if !report.acted {
        return would_text(row, report).filter(|_| row.changed);
    }
    let is_home = matches!(row.decision.memory, None | Some(Reason::AllHome));
    let is_quiet = row.decision.verdict == Verdict::Stays && is_home
        || row.decision.reason == Reason::TooYoung;
    match &row.done.outcome {
        _ if row.changed && !is_quiet => Some(sentence(row, report)),
        Some(outcome) => Some(late_result_text(outcome, row, report)),
        None => None,
    }
}

/// Formats what would be done with a process; `None` if nothing.
fn would_text(row: ReportedSubject<'_>, report: &RoundReport) -> Option<String> {
    let (at, numbers) = (home(row.home?), &row.decision.numbers);
    let count = numbers.threads_nudged;
    let nudged = (count > 0).then(|| threads(count));
    let moved = (numbers.pages_planned > 0).then(|| {
        let bytes = format_bytes(numbers.pages_planned * report.page_bytes);
        let [saves, costs] = [numbers.gain_ns, numbers.cost_ns].map(format_ns);
        format!("{bytes}, which saves {saves} and costs {costs}")
    });
    let what: Vec<String> = nudged.into_iter().chain(moved).collect();
    (!what.is_empty()).then(|| format!("would be brought home to {at}: {}", what.join(" and ")))
}

fn sentence(row: ReportedSubject<'_>, report: &RoundReport) -> String {
    let at = row.home.map(home).unwrap_or_default();
    let mut parts = vec![match row.decision.verdict {
        Verdict::Left => format!("left alone: {}", row.decision.reason),
        Verdict::Settles => format!("at home on {at} from now on: {}", row.decision.reason),
        Verdict::Stays => format!("stays at home on {at}: {}", row.decision.reason),
        Verdict::Moves => format!("home moves to {at}: {}", row.decision.reason),
    }];
    parts.extend(about_threads(row));
    parts.extend(about_memory(row, report));
    parts.join("; ")
}

fn about_threads(row: ReportedSubject<'_>) -> Option<String> {
    let (away, done) = (row.decision.numbers.threads_away, &row.done);
    if away == 0 {
        return None;
    }
    let others = [
        (done.threads_asleep, "asleep"),
        (done.threads_not_allowed, "not allowed there"),
        (done.threads_changed, "given other CPUs meanwhile"),
        (done.threads_gone, "ended"),
    ];
    let others = others.into_iter().filter(|(count, _)| *count > 0);
    let others: String = others.map(|(count, what)| format!(", {count} {what}")).collect();
    let why = row.decision.threads.map_or_else(String::new, |reason| format!(" ({reason})"));
    Some(format!("{} away, {} brought home{others}{why}", threads(away), done.threads_placed))
}

fn about_memory(row: ReportedSubject<'_>, report: &RoundReport) -> Option<String> {
    let reason = row.decision.memory.filter(|&reason| reason != Reason::AllHome)?;
    let numbers = &row.decision.numbers;
    let bytes = |pages: u64| format_bytes(pages * report.page_bytes);
    let gain = match numbers.gain_ns {
        _ if reason == Reason::Stalled => {
            format!(", {} % of the time", numbers.stalled_ppm.unwrap_or(0) / 10_000)
        }
        0 => String::new(),
        gain => format!(", saves {} and costs {}", format_ns(gain), format_ns(numbers.cost_ns)),
    };
    let came = match (&row.done.outcome, row.done.pages_pending) {
        (Some(outcome), 0) => move_result_text(outcome, row, &bytes),
        (_, 0) => format!("{} brought home", bytes(row.done.pages_moved)),
        (_, rest) => {
            format!("{} brought home, {} on the way", bytes(row.done.pages_moved), bytes(rest))
        }
    };
    Some(format!("{} away, {came} ({reason}{gain})", bytes(numbers.pages_away)))
}

/// Formats the result of a move that was decided rounds ago.
fn late_result_text(outcome: &Outcome, row: ReportedSubject<'_>, report: &RoundReport) -> String {
    let bytes = |pages: u64| format_bytes(pages * report.page_bytes);
    format!("of {} away, {}", bytes(outcome.pages_planned), move_result_text(outcome, row, &bytes))
}

fn move_result_text(
    outcome: &Outcome,
    row: ReportedSubject<'_>,
    bytes: &impl Fn(u64) -> String,
) -> String {
    let mut words = format!("{} brought home", bytes(outcome.pages_moved));
    words += &stayed_text(outcome, bytes);
    if let Some(away) = row.done.pages_away_after.filter(|&pages| pages > 0) {
        let _ = write!(words, "; {} still away", bytes(away));
    }
    words
}

/// Explains what did not move, if anything.
pub(super) fn stayed_text(outcome: &Outcome, bytes: &impl Fn(u64) -> String) -> String {
    let mut words = String::new();
    let stayed = outcome.pages_stayed.iter().filter(|(_, pages)| **pages > 0);
    for (reason, &pages) in stayed {
        let _ = write!(words, ", {} stayed ({reason})", bytes(pages));
    }
    if let Some(short) = outcome.short.and_then(shortfall_text) {
        let _ = write!(words, "; the rest {short}");
    }
    words
}

/// Explains pages that neither moved nor stayed for a reason of their own.
fn shortfall_text(short: Short) -> Option<&'static str> {
    Some(match short {
        Short::Refused => return None,
        Short::Budget => "is left to later rounds",
        Short::Pressure => "waits: memory is short there",
        Short::Stalled => "waits: tasks stand still for want of memory",
        Short::TooDear => "stays: moving it turned out too dear",
        Short::NotThere => "was freed, or is not where it had been seen",
        Short::Gone => "is gone with the process",
        Short::NotWanted => "stays: it belongs elsewhere by now",
        Short::Interrupted => "stays: the balancer was asked to stop",
        Short::Failed => "stays: the machine refused",
    })
}

#[cfg(test)]
mod tests {
    use nodeward_model::{NodeId, Pid, SkipReason};
    use nodeward_policy::placement::{EntityId, Numbers};

    use super::*;

    const MIB: u64 = 256; // pages

    fn row(done: Done) -> ProcessRow {
        ProcessRow {
            pid: Pid::new(7).unwrap(),
            name: "postgres".into(),
            home: Some(Home::Node(NodeId(0))),
            decision: Decision {
                memory: Some(Reason::Pays),
                numbers: Numbers {
                    pages_away: 56 * MIB,
                    pages_planned: 56 * MIB,
                    threads_away: 3,
                    threads_nudged: 3,
                    ..Numbers::default()
                },
                ..Decision::new(EntityId(1), Verdict::Stays, Reason::MemoryThere)
            },
            counted_pages: None,
            changed: true,
            threads: [].into(),
            pages: [].into(),
            pages_at_ns: None,
            segments: Vec::new(),
            done,
        }
    }

    fn told(row: &ProcessRow) -> String {
        let report = RoundReport { acted: true, page_bytes: 4096, ..RoundReport::default() };
        change_line(row, &report).unwrap()
    }

    fn outcome(pages_moved: u64, shared: u64, short: Option<Short>) -> Option<Outcome> {
        let pages_stayed = [(SkipReason::Shared, shared)].into();
        Some(Outcome { pages_planned: 56 * MIB, pages_moved, pages_stayed, short })
    }

    /// Goal: the line for a decision shows its result: 11 MiB moved of 56, and why not the rest;
    /// two of three threads moved.
    #[test]
    fn what_happened_is_told() {
        let done = Done {
            threads_placed: 2,
            threads_asleep: 1,
            pages_moved: 11 * MIB,
            pages_away_after: Some(45 * MIB),
            outcome: outcome(11 * MIB, 40 * MIB, Some(Short::NotThere)),
            ..Done::default()
        };
        assert_eq!(
            told(&row(done)),
            "postgres (7): stays at home on 0: memory-there; 3 threads away, 2 brought home, 1 \
             asleep; 56.0 MiB away, 11.0 MiB brought home, 40.0 MiB stayed (shared); the rest was \
             freed, or is not where it had been seen; 45.0 MiB still away (pays)"
        );
    }

    /// Goal: a move that takes several rounds is reported when it begins, with what moved, and when
    /// it ends.
    #[test]
    fn what_takes_long_is_told_twice() {
        let on_its_way = row(Done {
            pages_moved: 4 * MIB,
            pages_pending: 52 * MIB,
            short: Some(Short::Budget),
            ..Done::default()
        });
        let words = "56.0 MiB away, 4.00 MiB brought home, 52.0 MiB on the way (pays)";
        assert!(told(&on_its_way).ends_with(words), "{}", told(&on_its_way));
        let done = Done { outcome: outcome(56 * MIB, 0, None), ..Done::default() };
        let arrived = ProcessRow { changed: false, ..row(done) };
        assert_eq!(told(&arrived), "postgres (7): of 56.0 MiB away, 56.0 MiB brought home");
        let later = ProcessRow { changed: false, ..row(Done::default()) };
        assert_eq!(change_line(&later, &RoundReport::default()), None);
    }

    /// Goal: what is not done is told as such, with what it would save; where nothing would be done
    /// nothing is told.
    #[test]
    fn what_would_be_done_is_told() {
        let idle = RoundReport { acted: false, page_bytes: 4096, ..RoundReport::default() };
        let mut row = row(Done::default());
        (row.decision.numbers.gain_ns, row.decision.numbers.cost_ns) = (1_200_000_000, 30_000_000);
        assert_eq!(
            change_line(&row, &idle).unwrap(),
            "postgres (7): would be brought home to 0: 3 threads and 56.0 MiB, which saves 1.20 s \
             and costs 30.0 ms"
        );
        row.decision.numbers.pages_planned = 0;
        assert_eq!(
            change_line(&row, &idle).unwrap(),
            "postgres (7): would be brought home to 0: 3 threads"
        );
        row.changed = false;
        assert_eq!(change_line(&row, &idle), None);
        (row.changed, row.decision.numbers.threads_nudged) = (true, 0);
        assert_eq!(change_line(&row, &idle), None);
    }

    /// Goal: the table of a round that acted shows what was done; of one that did not, what would
    /// be done.
    #[test]
    fn a_table_tells_what_was_done() {
        let row = row(Done { threads_placed: 1, pages_moved: 11 * MIB, ..Done::default() });
        let told = |acted| {
            decision(
                (&row).into(),
                &RoundReport { acted, page_bytes: 4096, ..RoundReport::default() },
            )
        };
        assert_eq!(told(true), "stays, brought 1 thread, 11.0 MiB");
        assert_eq!(told(false), "stays, brings 3 threads, 56.0 MiB");
    }
}
