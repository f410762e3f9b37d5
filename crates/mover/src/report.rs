//! The reports of moves and of plans.

use std::collections::BTreeMap;

use nodeward_machine::{Error, Liveness};
use nodeward_model::{Account, NodeId, Pid, SkipReason};
use nodeward_policy::folio_plan::FolioMove;

use crate::hold_times::HoldTimes;
use crate::outcomes::{PageFlows, add_counts};
use crate::{MoveControl, StopReason};

/// The plan of a move.
#[derive(Debug, Default)]
pub struct PlanReport {
    /// Pid and plan of each process.
    pub processes: Vec<(Pid, ProcessPlan)>,
}

impl PlanReport {
    /// Returns the sum over all processes.
    pub fn total(&self) -> ProcessPlan {
        let mut total = ProcessPlan::default();
        self.processes.iter().for_each(|(_, plan)| total.join(plan));
        total
    }

    /// Adds the plan for other pages of the same processes. Before the first call the report is
    /// empty.
    pub fn join(&mut self, other: Self) {
        for ((_, plan), (_, other)) in self.processes.iter_mut().zip(&other.processes) {
            plan.join(other);
        }
        if self.processes.is_empty() {
            self.processes = other.processes;
        }
    }
}

/// The plan of a move for one process.
#[derive(Debug, Default)]
pub struct ProcessPlan {
    /// Base pages to move by source and destination.
    pub moves: BTreeMap<(NodeId, NodeId), u64>,
    /// Folios to move by their size in base pages.
    pub folios: BTreeMap<u32, u64>,
    /// Pages that stay, and why.
    pub account: Account,
    /// Base pages by node.
    pub residency: BTreeMap<NodeId, u64>,
    /// Base pages that another thread was moving at every look, so that they were on no node.
    pub in_flight: u64,
}

impl ProcessPlan {
    pub(crate) fn add(&mut self, folio: FolioMove) {
        *self.moves.entry((folio.from, folio.to)).or_default() += u64::from(folio.pages);
        *self.folios.entry(folio.pages).or_default() += 1;
    }

    /// Returns the number of base pages that would move.
    pub fn pages(&self) -> u64 {
        self.moves.values().sum()
    }

    /// Returns the number of base pages seen, in memory or in swap.
    pub fn seen(&self) -> u64 {
        total(&self.residency) + self.in_flight + self.account.skipped_for(SkipReason::Swapped)
    }

    fn join(&mut self, other: &Self) {
        add_counts(&mut self.moves, &other.moves);
        add_counts(&mut self.folios, &other.folios);
        self.account.add(&other.account);
        add_counts(&mut self.residency, &other.residency);
        self.in_flight += other.in_flight;
    }
}

/// The result of a move for one process.
#[derive(Debug)]
pub struct ProcessReport {
    /// The process.
    pub pid: Pid,
    /// The outcome of every selected page.
    pub account: Account,
    /// Base pages by node, each counted just before its move.
    pub before: BTreeMap<NodeId, u64>,
    /// Base pages that were on no node then, because another thread was moving them at every look.
    pub before_in_flight: u64,
    /// Bytes of selected addresses that nobody looked at, because the move was stopped; pages there
    /// are in no account.
    pub unexamined_bytes: u64,
    /// True if the last look was made to its end. It is not if the move was stopped and looking
    /// would have taken longer than somebody who presses Ctrl-C waits.
    pub verified: bool,
    /// Base pages by node at the end; empty if the process is gone, or nothing was verified.
    pub after: BTreeMap<NodeId, u64>,
    /// The comparison of the account with the pages seen at the end; zeros if nothing was verified.
    pub residue: Residue,
    /// The state of the process at the end: whether it still runs the same program.
    pub life: Liveness,
}

impl ProcessReport {
    /// Returns the number of base pages seen before they were moved, in memory or in swap.
    pub fn seen(&self) -> u64 {
        total(&self.before) + self.account.skipped_for(SkipReason::Swapped)
    }

    /// Returns true if a page was selected, or would have been but for a stop.
    fn selected_any(&self) -> bool {
        self.seen() + self.unexamined_bytes + self.account.selected() > 0
    }

    /// Returns the number of pages that were seen before and are neither seen nor accounted for
    /// now.
    fn lost_pages(&self) -> u64 {
        let gone = self.account.skipped_for(SkipReason::NotPresent);
        total(&self.before).saturating_sub(total(&self.after) + gone)
    }

    /// Accounts for pages that arrived and went away again as gone.
    pub(crate) fn account_for_lost(&mut self) {
        let lost = self.lost_pages();
        let account = &mut self.account;
        let of_moved = lost.min(account.moved);
        let of_others = (lost - of_moved).min(account.already_there);
        account.moved -= of_moved;
        account.already_there -= of_others;
        account.skip(SkipReason::NotPresent, of_moved + of_others);
    }

    /// Merges the result of another move of the same pages.
    fn repeat(&mut self, again: &Self) {
        // Pages that were there from the start are reported as such, later arrivals as moved.
        let arrived = again.account.already_there.saturating_sub(self.account.already_there);
        let went = self.account.selected().saturating_sub(again.account.selected());
        self.account.moved = again.account.moved + arrived;
        self.account.skipped.clone_from(&again.account.skipped);
        self.account.skip(SkipReason::NotPresent, went);
        // Pages that were out of sight at first are assumed to be where they are found now.
        let mut unseen = total(&again.before).saturating_sub(total(&self.before));
        for (node, pages) in &again.before {
            let came = pages.saturating_sub(self.after.get(node).copied().unwrap_or(0)).min(unseen);
            if came > 0 {
                *self.before.entry(*node).or_default() += came;
                unseen -= came;
            }
        }
        self.unexamined_bytes = again.unexamined_bytes;
        self.verified = again.verified;
        self.after.clone_from(&again.after);
        self.residue = again.residue;
        self.life = again.life;
    }

    /// Merges the result of a later move of those pages that stayed to another destination. It
    /// looked at all of them again, so its reasons hold, and its look at the end.
    fn join_pass(&mut self, later: &Self) {
        let gone = self.account.skipped_for(SkipReason::NotPresent);
        self.account.moved += later.account.moved;
        self.account.skipped.clone_from(&later.account.skipped);
        self.account.skip(SkipReason::NotPresent, gone);
        self.unexamined_bytes = later.unexamined_bytes;
        self.verified = later.verified;
        self.after.clone_from(&later.after);
        self.residue = later.residue;
        self.life = later.life;
    }

    fn join(&mut self, later: &Self) {
        self.account.add(&later.account);
        add_counts(&mut self.before, &later.before);
        self.before_in_flight += later.before_in_flight;
        self.unexamined_bytes += later.unexamined_bytes;
        self.verified &= later.verified;
        add_counts(&mut self.after, &later.after);
        self.residue.expected += later.residue.expected;
        self.residue.seen += later.residue.seen;
        self.life = later.life;
    }
}

/// Pages on the source nodes at the end: those that the account explains, and those seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Residue {
    /// Pages that stayed there according to the account.
    pub expected: u64,
    /// Pages that were seen there.
    pub seen: u64,
}

impl Residue {
    /// Returns the number of pages that appeared there after their turn: allocated by the running
    /// process, or moved back.
    pub fn appeared(self) -> u64 {
        self.seen.saturating_sub(self.expected)
    }
}

/// The result of a move.
#[derive(Debug, Default)]
pub struct MoveReport {
    /// The processes, in the order of the request.
    pub processes: Vec<ProcessReport>,
    /// Time from the first look to the last move, in nanoseconds.
    pub moving_ns: u64,
    /// Time of the last look, in nanoseconds.
    pub verifying_ns: u64,
    /// The number of workers in use at the end.
    pub workers: u32,
    /// Pages of nearly empty mappings, which a walk inside the kernel has moved. The accounts have
    /// them, a ledger does not: their addresses are not known.
    pub walked_pages: u64,
    /// Pages that arrived, by source and destination; also those that were freed afterwards.
    pub flows: PageFlows,
    /// The stall budget, in nanoseconds; `None` without one, and where it is not known.
    pub stall_ns: Option<u64>,
    /// How long runs of pages were held under a stall budget; empty without one.
    pub holds: HoldTimes,
    /// An estimate of the longest time that a run of pages was held under a stall budget, in
    /// nanoseconds, from the call's average time per page; `None` without a budget.
    pub longest_hold_ns: Option<u64>,
    /// The stall budget with which no page would have stayed because of it, as far as measured, in
    /// nanoseconds; `None` if none did.
    pub stall_needed_ns: Option<u64>,
    /// Base pages of huge pages that moved alone and were held for longer than the stall budget, at
    /// most about twice as long.
    pub over_stall_pages: u64,
    /// Huge pages that were split to keep the stall budget.
    pub split_folios: u64,
    /// The reason for which the move ended before all was done, if it was to stop.
    pub stopped: Option<StopReason>,
    /// The first error that ended the work on some pages early.
    pub error: Option<Error>,
}

impl MoveReport {
    /// Returns whether the last look was made to its end for every process.
    pub fn is_verified(&self) -> bool {
        self.processes.iter().all(|process| process.verified)
    }

    /// Returns the sum of the accounts of all processes.
    pub fn account(&self) -> Account {
        let mut total = Account::default();
        self.processes.iter().for_each(|process| total.add(&process.account));
        total
    }

    /// Returns whether a stop has left something to do.
    fn is_incomplete(&self) -> bool {
        let cut = |process: &ProcessReport| !process.verified || process.unexamined_bytes > 0;
        let stopped = self.account().skipped_for(SkipReason::Interrupted) > 0;
        stopped || self.processes.iter().any(cut)
    }

    /// Notes why the move ended early. A deadline that found nothing left to do ended nothing.
    pub(crate) fn note_stop(&mut self, control: &MoveControl) {
        let ended_it = |reason: &StopReason| match reason {
            StopReason::Requested => true,
            StopReason::Deadline => self.is_incomplete(),
        };
        self.stopped = control.stop_reason().filter(ended_it).filter(|_| self.error.is_none());
    }

    /// Returns whether every page that was seen before is seen afterwards.
    pub(crate) fn all_pages_seen(&self) -> bool {
        let lost: u64 = self.processes.iter().map(ProcessReport::lost_pages).sum();
        lost + self.account().skipped_for(SkipReason::NotPresent) == 0
    }

    /// Adds the result of a later move of other pages of the same processes. Before the first call
    /// the report is empty.
    pub fn join(&mut self, later: Self) {
        if self.processes.is_empty() {
            self.processes = later.processes;
        } else {
            let both = self.processes.iter_mut().zip(&later.processes);
            both.for_each(|(process, later)| process.join(later));
        }
        self.add_costs(MoveReport { processes: Vec::new(), ..later });
    }

    /// Adds the result of a later pass over the same processes, to other destinations. Processes
    /// of which that pass selected nothing stay as they are. Before the first call the report is
    /// empty.
    pub fn join_pass(&mut self, later: Self) {
        if self.processes.is_empty() {
            return *self = later;
        }
        let both = self.processes.iter_mut().zip(&later.processes);
        both.filter(|(_, later)| later.selected_any()).for_each(|(process, later)| {
            process.join_pass(later);
        });
        self.add_costs(MoveReport { processes: Vec::new(), ..later });
    }

    /// Merges the result of a later move of the same pages.
    pub(crate) fn repeat(&mut self, again: Self) {
        let both = self.processes.iter_mut().zip(&again.processes);
        both.for_each(|(process, again)| process.repeat(again));
        self.add_costs(again);
    }

    /// Adds times, workers, flows, holds and errors of a later move of any pages.
    pub fn add_costs(&mut self, later: Self) {
        self.moving_ns += later.moving_ns;
        self.verifying_ns += later.verifying_ns;
        self.workers = self.workers.max(later.workers);
        self.walked_pages += later.walked_pages;
        add_counts(&mut self.flows, &later.flows);
        self.holds.join(&later.holds);
        self.stall_ns = self.stall_ns.or(later.stall_ns);
        self.longest_hold_ns = self.longest_hold_ns.max(later.longest_hold_ns);
        self.stall_needed_ns = self.stall_needed_ns.max(later.stall_needed_ns);
        self.over_stall_pages += later.over_stall_pages;
        self.split_folios += later.split_folios;
        self.stopped = self.stopped.or(later.stopped);
        self.error = self.error.take().or(later.error);
    }
}

fn total(counts: &BTreeMap<NodeId, u64>) -> u64 {
    counts.values().sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(counts: [u64; 2]) -> BTreeMap<NodeId, u64> {
        [(NodeId(0), counts[0]), (NodeId(1), counts[1])].into()
    }

    fn report(before: [u64; 2], after: [u64; 2], account: Account) -> ProcessReport {
        ProcessReport {
            pid: Pid::new(7).unwrap(),
            account,
            before: on(before),
            before_in_flight: 0,
            after: on(after),
            unexamined_bytes: 0,
            verified: true,
            residue: Residue::default(),
            life: Liveness::Running,
        }
    }

    fn account<const N: usize>(
        moved: u64,
        already_there: u64,
        skipped: [(SkipReason, u64); N],
    ) -> Account {
        Account { moved, already_there, skipped: skipped.into() }
    }

    /// Goal: of 107 pages, 7 there from the start, 30 were out of sight after the first move: 5 of
    /// those had arrived, 15 were where they were, 10 are gone. Each is reported once.
    #[test]
    fn pages_that_are_moved_again_are_told_of_once() {
        use SkipReason::{NoMemory, NotPresent};
        let first = account(60, 7, [(NoMemory, 10), (NotPresent, 30)]);
        let mut whole = report([100, 7], [10, 67], first);
        // Node 0 has the 10 pages without room and the 15, node 1 those there and the 5.
        let again = report([25, 72], [5, 92], account(20, 72, [(NoMemory, 5)]));
        whole.repeat(&again);
        assert_eq!(whole.account, account(85, 7, [(NoMemory, 5), (NotPresent, 10)]));
        assert_eq!(whole.account.selected(), 107);
        assert_eq!((whole.before, whole.after), (on([100, 7]), on([5, 92])));
    }

    /// Goal: pages that were unmapped before the first look are counted where they turn up.
    #[test]
    fn pages_that_were_not_seen_at_first_count_too() {
        let mut whole = report([90, 0], [0, 90], account(90, 0, []));
        whole.repeat(&report([10, 90], [0, 100], account(10, 90, [])));
        assert_eq!((whole.account, whole.before), (account(100, 0, []), on([100, 0])));
    }

    /// Goal: a page that arrived and was dropped again does not count as moved.
    #[test]
    fn what_went_away_again_is_gone() {
        let mut report = report([100, 20], [0, 70], account(100, 20, []));
        report.account_for_lost();
        assert_eq!(report.account, account(50, 20, [(SkipReason::NotPresent, 50)]));
        assert_eq!(report.lost_pages(), 0);
    }
}
