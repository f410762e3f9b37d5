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

    fn join(&mut self, other: &Self) {
        add_counts(&mut self.moves, &other.moves);
        add_counts(&mut self.folios, &other.folios);
        self.account.add(&other.account);
        add_counts(&mut self.residency, &other.residency);
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
    /// Base pages by node at the end; empty if the process is gone.
    pub after: BTreeMap<NodeId, u64>,
    /// Whether the account agrees with what was seen at the end.
    pub residue: Residue,
    /// Whether the process still ran the same program at the end.
    pub life: Life,
}

impl ProcessReport {
    /// Pages that were there before and are nowhere now, beside those of which the account says so.
    /// It means something where nobody but the kernel takes pages away, as from the page cache.
    pub fn lost_pages(&self) -> u64 {
        let [before, after] = [&self.before, &self.after].map(|nodes| nodes.values().sum::<u64>());
        before.saturating_sub(after + self.account.skipped_for(SkipReason::NotPresent))
    }

    fn join(&mut self, later: &Self) {
        self.account.add(&later.account);
        add_counts(&mut self.before, &later.before);
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

    /// Adds what a later move did with other pages of the same processes. Before the first there
    /// are none.
    pub fn join(&mut self, later: Self) {
        for (process, later) in self.processes.iter_mut().zip(&later.processes) {
            process.join(later);
        }
        if self.processes.is_empty() {
            self.processes = later.processes;
        }
        self.moving_ns += later.moving_ns;
        self.verifying_ns += later.verifying_ns;
        self.workers = self.workers.max(later.workers);
        self.longest_hold_ns = self.longest_hold_ns.max(later.longest_hold_ns);
        self.interrupted |= later.interrupted;
        self.error = self.error.take().or(later.error);
    }
}
