//! Formats decisions about segments that several processes map in words.

use nodeward_balancer::{Outcome, RoundReport, SegmentRow};
use nodeward_model::units::{format_bytes, format_ns};
use nodeward_policy::placement::Reason;

use super::decision_text::{by_node, stayed_text};

/// Formats the segments of a round, a line for each.
pub fn lines(report: &RoundReport) -> String {
    let line = |row: &SegmentRow| format!("{}\n", sentence(row, report));
    report.segments.iter().map(line).collect()
}

/// Formats a line for a new decision about a segment, or for the result of an earlier one. `None`
/// if it is of no interest: it is where it belongs, or nobody uses it.
pub fn change_line(row: &SegmentRow, report: &RoundReport) -> Option<String> {
    let is_quiet = matches!(
        row.decision.reason,
        Reason::AllHome | Reason::UsersApart | Reason::Unused | Reason::UsersUnsettled
    );
    let is_news = row.changed && !is_quiet || row.done.outcome.is_some();
    is_news.then(|| sentence(row, report))
}

/// Formats a segment for those who ask about a process that maps it.
pub fn explanation(row: &SegmentRow, report: &RoundReport) -> String {
    format!("{}; {}: {}", at(row, report), row.decision.reason, row.decision.reason.advice())
}

fn sentence(row: &SegmentRow, report: &RoundReport) -> String {
    format!("segment {} ({})", at(row, report), decision(row, report))
}

/// Its name, where it is and who uses it.
fn at(row: &SegmentRow, report: &RoundReport) -> String {
    let on = by_node(&row.residency, |&pages| format_bytes(pages * report.page_bytes));
    let (users, mappers) = (row.decision.users, row.mappers);
    format!("{}, on nodes {on}, used by {users} of {mappers} processes", row.name)
}

fn decision(row: &SegmentRow, report: &RoundReport) -> String {
    let decision = &row.decision;
    let bytes = |pages: u64| format_bytes(pages * report.page_bytes);
    if decision.pages_away == 0 && row.done.outcome.is_none() {
        return decision.reason.name().to_owned();
    }
    let came = match (&row.done.outcome, report.acted) {
        (Some(outcome), _) => outcome_text(outcome, &bytes),
        (None, false) => format!("{} would move", bytes(decision.pages_planned)),
        (None, true) => format!(
            "{} moved, {} on the way",
            bytes(row.done.pages_moved),
            bytes(row.done.pages_pending)
        ),
    };
    if decision.pages_away == 0 {
        return format!("belongs on {}: {came}; {}", decision.nodes, decision.reason);
    }
    format!(
        "belongs on {}: {} away, {came}; {}, saves {} and costs {}",
        decision.nodes,
        bytes(decision.pages_away),
        decision.reason,
        format_ns(decision.gain_ns),
        format_ns(decision.cost_ns)
    )
}

fn outcome_text(outcome: &Outcome, bytes: &impl Fn(u64) -> String) -> String {
    format!("{} moved{}", bytes(outcome.pages_moved), stayed_text(outcome, bytes))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use nodeward_balancer::Done;
    use nodeward_model::{NodeId, SegmentId};
    use nodeward_policy::placement::SegmentDecision;

    use super::*;

    fn row(reason: Reason, done: Done) -> SegmentRow {
        SegmentRow {
            name: "/dev/shm/\x1b[2Jdb".into(),
            bytes: 16 << 20,
            mappers: 3,
            decision: SegmentDecision {
                segment: SegmentId { major: 0, minor: 1, inode: 7 },
                reason,
                users: 2,
                nodes: [NodeId(1)].into_iter().collect(),
                pages: 4096,
                pages_away: if reason == Reason::Pays { 4096 } else { 0 },
                pages_planned: 4096,
                gain_ns: 2_000_000_000,
                cost_ns: 8_000_000,
                wait_ns: 0,
                counts_wanted: false,
                load_ppm: 1_000_000,
                horizon_ns: 10_000_000_000,
                rooms: BTreeMap::new(),
            },
            changed: true,
            residency: [(NodeId(0), 4096)].into(),
            pages_at_ns: 1,
            done,
        }
    }

    fn told(row: &SegmentRow, acted: bool) -> Option<String> {
        change_line(row, &RoundReport { acted, page_bytes: 4096, ..RoundReport::default() })
    }

    /// Goal: a line names the segment, whatever bytes are in its name, and tells what came of it;
    /// what is of no interest has none.
    #[test]
    fn what_happens_to_a_segment_is_told() {
        let at = "segment /dev/shm/\\x1b[2Jdb, on nodes 0: 16.0 MiB, used by 2 of 3 processes";
        let line = |came: &str| {
            Some(format!(
                "{at} (belongs on 1: 16.0 MiB away, {came}; pays, saves 2.00 s and costs 8.00 ms)"
            ))
        };
        let would = row(Reason::Pays, Done::default());
        assert_eq!(told(&would, false), line("16.0 MiB would move"));
        let under_way = Done { pages_moved: 1024, pages_pending: 3072, ..Done::default() };
        let came = "4.00 MiB moved, 12.0 MiB on the way";
        assert_eq!(told(&row(Reason::Pays, under_way), true), line(came));
        let outcome =
            Some(Outcome { pages_planned: 4096, pages_moved: 4096, ..Outcome::default() });
        let ended = row(Reason::Pays, Done { outcome, ..Done::default() });
        assert_eq!(told(&ended, true), line("16.0 MiB moved"));
        let by_range =
            row(Reason::UsersApart, Done { outcome: ended.done.outcome, ..Done::default() });
        let came = "belongs on 1: 16.0 MiB moved; users-apart";
        assert_eq!(told(&by_range, true), Some(format!("{at} ({came})")));
        let shared = row(Reason::SharedMemory, Done::default());
        assert_eq!(told(&shared, true), Some(format!("{at} (shared-memory)")));
        assert_eq!(told(&row(Reason::UsersApart, Done::default()), true), None);
    }
}
