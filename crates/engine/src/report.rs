//! What a move did.

use std::collections::BTreeMap;

use nodeward_machine::{Error, Life};
use nodeward_model::{Account, NodeId, Pid, SkipReason};
use nodeward_policy::plan::FolioMove;

use crate::tally::add_counts;

/// What a move would do.
#[derive(Debug, Default)]
pub struct PlanReport {
    /// For each process: pid, pages to move by (from, to), and the account of those that stay.
    pub processes: Vec<(Pid, ProcessPlan)>,
}

impl PlanReport {
    /// Of all processes together.
    pub(crate) fn total(&self) -> ProcessPlan {
        let mut total = ProcessPlan::default();
        self.processes.iter().for_each(|(_, plan)| total.join(plan));
        total
    }

    /// Adds the plan for other pages of the same processes. Before the first there are none.
    pub fn join(&mut self, other: Self) {
        for ((_, plan), (_, other)) in self.processes.iter_mut().zip(&other.processes) {
            plan.join(other);
        }
        if self.processes.is_empty() {
            self.processes = other.processes;
        }
    }
}

/// What a move would do with one process.
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
    /// Base pages on no node, because somebody was moving them at every look.
    pub in_flight: u64,
}

impl ProcessPlan {
    pub(crate) fn add(&mut self, folio: FolioMove) {
        *self.moves.entry((folio.from, folio.to)).or_default() += u64::from(folio.pages);
        *self.folios.entry(folio.pages).or_default() += 1;
    }

    /// Base pages that would move.
    pub fn pages(&self) -> u64 {
        self.moves.values().sum()
    }

    /// Base pages of which something was seen, in memory or in swap.
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

/// What a move did with one process.
#[derive(Debug)]
pub struct ProcessReport {
    /// The process.
    pub pid: Pid,
    /// Where every selected page ended.
    pub account: Account,
    /// Base pages by node, each counted just before its turn.
    pub before: BTreeMap<NodeId, u64>,
    /// Base pages on no node then, because somebody was moving them at every look.
    pub before_in_flight: u64,
    /// Base pages by node at the end; empty if the process is gone.
    pub after: BTreeMap<NodeId, u64>,
    /// Whether the account agrees with what was seen at the end.
    pub residue: Residue,
    /// Whether the process still ran the same program at the end.
    pub life: Life,
}

impl ProcessReport {
    /// Base pages of which something was seen before they were moved, in memory or in swap.
    pub fn seen(&self) -> u64 {
        total(&self.before) + self.account.skipped_for(SkipReason::Swapped)
    }

    /// Pages that were seen before, and afterwards neither seen nor accounted for.
    fn lost_pages(&self) -> u64 {
        let gone = self.account.skipped_for(SkipReason::NotPresent);
        total(&self.before).saturating_sub(total(&self.after) + gone)
    }

    /// Pages that arrived and went away again are accounted for as gone.
    pub(crate) fn account_for_lost(&mut self) {
        let lost = self.lost_pages();
        let account = &mut self.account;
        let of_moved = lost.min(account.moved);
        let of_others = (lost - of_moved).min(account.already_there);
        account.moved -= of_moved;
        account.already_there -= of_others;
        account.skip(SkipReason::NotPresent, of_moved + of_others);
    }

    /// Enters what became of the same pages when they were moved once more.
    fn repeat(&mut self, again: &Self) {
        // What was there from the first is told so, and what is there since the last time as moved.
        let arrived = again.account.already_there.saturating_sub(self.account.already_there);
        let went = self.account.selected().saturating_sub(again.account.selected());
        self.account.moved = again.account.moved + arrived;
        self.account.skipped.clone_from(&again.account.skipped);
        self.account.skip(SkipReason::NotPresent, went);
        // Pages that were out of sight from the first are, as far as can be told, where they were.
        let mut unseen = total(&again.before).saturating_sub(total(&self.before));
        for (node, pages) in &again.before {
            let came = pages.saturating_sub(self.after.get(node).copied().unwrap_or(0)).min(unseen);
            if came > 0 {
                *self.before.entry(*node).or_default() += came;
                unseen -= came;
            }
        }
        self.after.clone_from(&again.after);
        self.residue = again.residue;
        self.life = again.life;
    }

    fn join(&mut self, later: &Self) {
        self.account.add(&later.account);
        add_counts(&mut self.before, &later.before);
        self.before_in_flight += later.before_in_flight;
        add_counts(&mut self.after, &later.after);
        self.residue.expected += later.residue.expected;
        self.residue.seen += later.residue.seen;
        self.life = later.life;
    }
}

/// Pages on the source nodes at the end: those that the account explains, and those that were seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Residue {
    /// Pages that the account says stayed there.
    pub expected: u64,
    /// Pages that were seen there.
    pub seen: u64,
}

impl Residue {
    /// Pages that appeared there behind the move: allocated by the running process, or moved back.
    pub fn appeared(self) -> u64 {
        self.seen.saturating_sub(self.expected)
    }
}

/// What a move did.
#[derive(Debug, Default)]
pub struct MoveReport {
    /// Each process, in the order in which they were named.
    pub processes: Vec<ProcessReport>,
    /// From the first look to the last move, in nanoseconds.
    pub moving_ns: u64,
    /// The last look, in nanoseconds.
    pub verifying_ns: u64,
    /// The number of workers in use at the end.
    pub workers: u32,
    /// How long a run of pages was held at most under a stall budget, in nanoseconds, going by what
    /// its call took a page; `None` without a budget.
    pub longest_hold_ns: Option<u64>,
    /// The stall budget with which nothing would have stayed behind for the budget's sake, as far
    /// as was measured, in nanoseconds; `None` if nothing did.
    pub stall_needed_ns: Option<u64>,
    /// Whether it was asked to stop.
    pub interrupted: bool,
    /// The first error that ended the work on some pages early.
    pub error: Option<Error>,
}

impl MoveReport {
    /// The account of all processes together.
    pub fn account(&self) -> Account {
        let mut total = Account::default();
        self.processes.iter().for_each(|process| total.add(&process.account));
        total
    }

    /// Whether every page that was seen before is seen afterwards.
    pub(crate) fn all_is_seen(&self) -> bool {
        let lost: u64 = self.processes.iter().map(ProcessReport::lost_pages).sum();
        lost + self.account().skipped_for(SkipReason::NotPresent) == 0
    }

    /// Adds what a later move did with other pages of the same processes. Before the first there
    /// are none.
    pub fn join(&mut self, later: Self) {
        if self.processes.is_empty() {
            self.processes = later.processes;
        } else {
            let both = self.processes.iter_mut().zip(&later.processes);
            both.for_each(|(process, later)| process.join(later));
        }
        self.go_on(MoveReport { processes: Vec::new(), ..later });
    }

    /// Adds what a later move did with the same pages.
    pub(crate) fn repeat(&mut self, again: Self) {
        let both = self.processes.iter_mut().zip(&again.processes);
        both.for_each(|(process, again)| process.repeat(again));
        self.go_on(again);
    }

    /// Adds what a later move took, whatever its pages.
    pub fn go_on(&mut self, later: Self) {
        self.moving_ns += later.moving_ns;
        self.verifying_ns += later.verifying_ns;
        self.workers = self.workers.max(later.workers);
        self.longest_hold_ns = self.longest_hold_ns.max(later.longest_hold_ns);
        self.stall_needed_ns = self.stall_needed_ns.max(later.stall_needed_ns);
        self.interrupted |= later.interrupted;
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
            residue: Residue::default(),
            life: Life::Running,
        }
    }

    fn account<const N: usize>(
        moved: u64,
        already_there: u64,
        skipped: [(SkipReason, u64); N],
    ) -> Account {
        Account { moved, already_there, skipped: skipped.into() }
    }

    /// Goal: of 107 pages, 7 there from the first, 30 were out of sight after the first move: 5 of
    /// those had arrived, 15 were where they were, 10 are gone. Each is told of once.
    #[test]
    fn pages_that_are_moved_again_are_told_of_once() {
        use SkipReason::{NoMemory, NotPresent};
        let first = account(60, 7, [(NoMemory, 10), (NotPresent, 30)]);
        let mut whole = report([100, 7], [10, 67], first);
        // On node 0 the 10 for which there was no room and the 15, on node 1 those there and the 5.
        let again = report([25, 72], [5, 92], account(20, 72, [(NoMemory, 5)]));
        whole.repeat(&again);
        assert_eq!(whole.account, account(85, 7, [(NoMemory, 5), (NotPresent, 10)]));
        assert_eq!(whole.account.selected(), 107);
        assert_eq!((whole.before, whole.after), (on([100, 7]), on([5, 92])));
    }

    /// Goal: pages that were unmapped before the first look are told of where they turn up.
    #[test]
    fn pages_that_were_not_seen_at_first_count_too() {
        let mut whole = report([90, 0], [0, 90], account(90, 0, []));
        whole.repeat(&report([10, 90], [0, 100], account(10, 90, [])));
        assert_eq!((whole.account, whole.before), (account(100, 0, []), on([100, 0])));
    }

    /// Goal: what arrived and was dropped again has not arrived.
    #[test]
    fn what_went_away_again_is_gone() {
        let mut report = report([100, 20], [0, 70], account(100, 20, []));
        report.account_for_lost();
        assert_eq!(report.account, account(50, 20, [(SkipReason::NotPresent, 50)]));
        assert_eq!(report.lost_pages(), 0);
    }
}
