//! A move in a few lines: what it would do, and what it did.

use anyhow::{Result, bail};
use nodeward_machine::Liveness;
use nodeward_model::Account;
use nodeward_model::units::{format_bytes, format_ns};
use nodeward_mover::ProcessPlan;

use crate::output::shared_memory::SharedMemoryReport;
use crate::verbs::move_task::CarriedOut;

/// What happens to the process.
const MEANWHILE: &str = "The process goes on; a thread that touches a page in flight waits.";

/// Formats a plan as a question, a line for each pair of nodes.
///
/// # Errors
/// If nothing would move; the error says why.
pub fn plan<'a>(
    whose: &str,
    plans: impl Iterator<Item = &'a ProcessPlan>,
    page_bytes: u64,
    can_be_undone: bool,
) -> Result<Vec<String>> {
    let (mut lines, mut account, mut pages) = (Vec::new(), Account::default(), 0);
    for plan in plans {
        account.add(&plan.account);
        pages += plan.pages();
        lines.extend(plan.moves.iter().map(|((from, to), pages)| {
            let bytes = format_bytes(pages * page_bytes);
            format!("  {bytes} from node {from} to node {to}, {pages} pages")
        }));
    }
    let stays = stays(&account);
    if pages == 0 {
        bail!(
            "nothing of {whose} would move{}",
            stays.map_or_else(String::new, |it| format!(": {it}"))
        );
    }
    lines.insert(0, format!("Move {} of {whose}?", format_bytes(pages * page_bytes)));
    lines.extend(stays.map(|stays| format!("  stays: {stays}")));
    let undo = if can_be_undone { " u takes it back." } else { "" };
    lines.push(format!("{MEANWHILE}{undo}"));
    Ok(lines)
}

/// Formats what a move did.
pub fn outcome(whose: &str, done: &CarriedOut, page_bytes: u64, can_be_undone: bool) -> String {
    let report = &done.report;
    let mut account = report.account();
    if let Some(segments) = done.shared.as_ref().and_then(SharedMemoryReport::account) {
        account.add(segments);
    }
    let moved = format_bytes(account.moved * page_bytes);
    let mut words = format!("moved {moved} of {whose} in {}", format_ns(report.moving_ns));
    if report.stopped.is_some() {
        words = format!("stopped: {words}");
    }
    if let Some(error) = &report.error {
        words += &format!("; ended early: {error}");
    }
    if report.processes.iter().any(|process| process.life != Liveness::Running) {
        words += "; the process has ended, or called exec";
    }
    words += &stays(&account).map_or_else(String::new, |stays| format!("; stayed: {stays}"));
    if can_be_undone && account.moved > 0 {
        words += "; u takes it back";
    }
    words
}

/// Formats the pages that stay, by reason.
fn stays(account: &Account) -> Option<String> {
    let there =
        (account.already_there > 0).then(|| format!("{} already there", account.already_there));
    let skipped = account.skipped.iter().filter(|(_, pages)| **pages > 0);
    let skipped = skipped.map(|(reason, pages)| format!("{pages} {reason}"));
    let words: Vec<String> = there.into_iter().chain(skipped).collect();
    (!words.is_empty()).then(|| format!("{} (pages)", words.join(", ")))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use nodeward_model::{NodeId, Pid, SkipReason};
    use nodeward_mover::{MoveReport, ProcessReport, Residue, StopReason};

    use super::*;

    fn account(moved: u64) -> Account {
        let skipped = [(SkipReason::Pinned, 3)].into();
        Account { moved, already_there: 500, skipped }
    }

    /// Goal: a plan says how much goes where (512 pages of 4 KiB are 2 MiB), what stays and why,
    /// and what can be done afterwards; one that moves nothing is no question.
    #[test]
    fn a_plan_is_a_question() {
        let moves = [((NodeId(0), NodeId(1)), 512)].into();
        let planned = ProcessPlan { moves, account: account(0), ..ProcessPlan::default() };
        let lines = plan("process 7 (db)", [&planned].into_iter(), 4096, true).unwrap();
        assert_eq!(
            lines,
            [
                "Move 2.00 MiB of process 7 (db)?",
                "  2.00 MiB from node 0 to node 1, 512 pages",
                "  stays: 500 already there, 3 pinned (pages)",
                "The process goes on; a thread that touches a page in flight waits. \
                 u takes it back.",
            ]
        );
        let nothing = ProcessPlan { account: account(0), ..ProcessPlan::default() };
        let why = plan("process 7 (db)", [&nothing].into_iter(), 4096, true).unwrap_err();
        let told = "nothing of process 7 (db) would move: 500 already there, 3 pinned (pages)";
        assert_eq!(why.to_string(), told);
    }

    /// Goal: what is told is what happened, not what was planned: 2 MiB moved before a stop.
    #[test]
    fn what_happened_is_told() {
        let process = ProcessReport {
            pid: Pid::new(7).unwrap(),
            account: account(512),
            before: BTreeMap::new(),
            before_in_flight: 0,
            unexamined_bytes: 0,
            verified: true,
            after: BTreeMap::new(),
            residue: Residue::default(),
            life: Liveness::Running,
        };
        let report = MoveReport {
            processes: vec![process],
            moving_ns: 2_000_000,
            stopped: Some(StopReason::Requested),
            ..MoveReport::default()
        };
        let done = CarriedOut { report, shared: None, ledger: None, collapse: None };
        assert_eq!(
            outcome("process 7 (db)", &done, 4096, true),
            "stopped: moved 2.00 MiB of process 7 (db) in 2.00 ms; stayed: 500 already there, \
             3 pinned (pages); u takes it back"
        );
    }
}
