//! Sums over units of work.

use std::collections::BTreeMap;

use nodeward_machine::Error;
use nodeward_model::{Account, NodeId};
use nodeward_policy::folio_plan::FolioPlan;

use crate::folio_mover::FolioMoveOutcome;

/// Base pages by node.
pub type NodeCounts = BTreeMap<NodeId, u64>;
/// Base pages that moved, by source and destination.
pub type PageFlows = BTreeMap<(NodeId, NodeId), u64>;

/// The sums of one unit, or of all units of a process.
#[derive(Debug, Default)]
pub struct UnitOutcome {
    pub account: Account,
    /// Pages by node, each counted just before its move.
    pub before: BTreeMap<NodeId, u64>,
    /// Pages that were on no node then, because another thread was moving them.
    pub before_in_flight: u64,
    /// Pages that arrived, by source and destination.
    pub flows: PageFlows,
    /// Pages that are on their destination, by node.
    pub on_destination: BTreeMap<NodeId, u64>,
    /// Bytes of address space that nobody looked at.
    pub unexamined_bytes: u64,
    /// Pages moved by a walk inside the kernel.
    pub walked_pages: u64,
}

impl UnitOutcome {
    /// The result of a look: the pages that are not to move.
    pub fn of(plan: &FolioPlan) -> Self {
        Self {
            account: plan.account.clone(),
            before: plan.residency.clone(),
            before_in_flight: plan.unlocated_pages,
            flows: PageFlows::new(),
            on_destination: plan.already_there_by_node.clone(),
            unexamined_bytes: plan.unexamined_bytes,
            walked_pages: 0,
        }
    }

    /// Adds the outcome of the pages that were to move.
    pub fn add_moves(&mut self, outcome: &FolioMoveOutcome) {
        self.account.add(&outcome.account);
        for folio in &outcome.moved {
            let pages = u64::from(folio.pages);
            self.account.moved += pages;
            *self.on_destination.entry(folio.to).or_default() += pages;
            *self.flows.entry((folio.from, folio.to)).or_default() += pages;
        }
    }

    /// Adds the counts of another tally.
    pub fn add(&mut self, other: &Self) {
        self.account.add(&other.account);
        add_counts(&mut self.before, &other.before);
        self.before_in_flight += other.before_in_flight;
        add_counts(&mut self.flows, &other.flows);
        add_counts(&mut self.on_destination, &other.on_destination);
        self.unexamined_bytes += other.unexamined_bytes;
        self.walked_pages += other.walked_pages;
    }
}

/// The tallies of all processes, and the first error that ended work on a unit.
#[derive(Debug)]
pub struct ProcessOutcomes {
    pub by_process: Vec<UnitOutcome>,
    pub error: Option<Error>,
}

impl ProcessOutcomes {
    /// Empty tallies of `processes` processes.
    pub fn new(processes: usize) -> Self {
        Self { by_process: (0..processes).map(|_| UnitOutcome::default()).collect(), error: None }
    }

    /// Adds the result of a unit of a process.
    pub fn add(&mut self, process: usize, tally: &UnitOutcome, error: Option<Error>) {
        self.by_process[process].add(tally);
        self.error = self.error.take().or(error);
    }

    /// Returns the pages that arrived, by source and destination.
    pub fn flows(&self) -> PageFlows {
        let mut all = PageFlows::new();
        self.by_process.iter().for_each(|tally| add_counts(&mut all, &tally.flows));
        all
    }

    /// Returns the number of base pages moved.
    pub fn moved(&self) -> u64 {
        self.by_process.iter().map(|tally| tally.account.moved).sum()
    }
}

/// Adds counts to counts, key by key.
pub fn add_counts<K: Ord + Copy>(total: &mut BTreeMap<K, u64>, counts: &BTreeMap<K, u64>) {
    for (&key, &count) in counts {
        *total.entry(key).or_default() += count;
    }
}
