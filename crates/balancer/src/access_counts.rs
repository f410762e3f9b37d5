//! Access counts: how often each node uses each page of spread processes, on machines that count
//! it, and which pages move for that.
//!
//! The counts of one period choose pages (`policy::hot::choose`), those of the next period confirm
//! them (`confirmed`). So pages that all nodes use alike do not move. A page that was moved stays
//! on its node for at least a minute, later for two, and so on, so that no page moves to and fro
//! for ever.

use std::collections::BTreeMap;

use nodeward_machine::{Machine, Process, Result};
use nodeward_model::{Access, NodeId, Nodemask, PageSet, Range};
use nodeward_mover::locate_folios;
use nodeward_policy::damping::Retry;
use nodeward_policy::hot::{
    FolioLocation, HotMove, HotPageRules, MissCosts, PageAccessCounts, confirmed, plan_moves,
};
use nodeward_policy::placement::{EntityId, MemoryMove, Reason};

/// Length of a counting period, in nanoseconds: the first value at first; twice as long after each
/// period in which no page was chosen, up to the second value.
const PERIOD_NS: [u64; 2] = [2_000_000_000, 64_000_000_000];
/// Maximum number of pairs of a page and a node in the counts of a period, some 50 MB. Accesses to
/// further pages are not counted.
const PAIRS_MAX: usize = 1 << 20;
/// Time for which a page stays on the node that it was moved to, in nanoseconds: at first and at
/// most.
const STAYS_NS: [u64; 2] = [60_000_000_000, 3_600_000_000_000];

/// The counts of all processes whose pages may be placed one by one.
#[derive(Debug, Default)]
pub struct AccessCounts {
    processes: BTreeMap<EntityId, ProcessCounts>,
}

/// The counts of a process.
#[derive(Debug)]
pub struct ProcessCounts {
    since_ns: u64,
    period: Retry,
    /// The counts of the period before, and its length in nanoseconds.
    before: Option<(PageAccessCounts, u64)>,
    now: PageAccessCounts,
    placed: PageSet,
    stays: Retry,
}

/// A process whose pages are to be placed.
pub struct SpreadProcess<'a> {
    pub entity: EntityId,
    pub process: &'a dyn Process,
    /// The nodes that its pages may move to.
    pub nodes: &'a Nodemask,
    /// Time within which a move must pay, in nanoseconds.
    pub horizon_ns: u64,
    /// Base pages for which its home has room.
    pub pages_max: u64,
    pub costs: MissCosts,
}

/// A memory move to one node, and the ranges of its pages.
pub type PageMove = (MemoryMove, Vec<Range>);

impl AccessCounts {
    /// Drops the counts of all other processes.
    pub fn keep(&mut self, is_wanted: impl Fn(EntityId) -> bool) {
        self.processes.retain(|&entity, _| is_wanted(entity));
    }

    /// Adds accesses by CPUs of a node to the counts of a process, if it has counts.
    pub fn add(&mut self, entity: EntityId, access: Access, from: NodeId) {
        if let Some(count) = self.processes.get_mut(&entity) {
            count.now.add(access.address, from, access.count);
        }
    }

    /// Returns the counts of a process. They begin now if there are none.
    pub fn of(&mut self, entity: EntityId, at_ns: u64, page_bytes: u64) -> &mut ProcessCounts {
        self.processes.entry(entity).or_insert_with(|| ProcessCounts::new(at_ns, page_bytes))
    }

    /// The length of the shortest period of all, in nanoseconds; of a first one if none has begun.
    pub fn period_ns_min(&self) -> u64 {
        let periods = self.processes.values().map(|counts| counts.period.length_ns());
        periods.min().unwrap_or(PERIOD_NS[0])
    }

    /// Returns the number of pages of a process that were accessed in this period; `None` if there
    /// are no counts.
    pub fn pages(&self, entity: EntityId) -> Option<u64> {
        self.processes.get(&entity).map(|count| count.now.pages().count() as u64)
    }
}

impl ProcessCounts {
    fn new(at_ns: u64, page_bytes: u64) -> Self {
        let mut period = Retry::default();
        period.start(at_ns, false, PERIOD_NS);
        Self {
            since_ns: at_ns,
            period,
            before: None,
            now: no_counts(page_bytes),
            placed: PageSet::new(page_bytes),
            stays: Retry::default(),
        }
    }

    /// Begins a new period without earlier counts, because all pages may be on other nodes soon.
    pub fn restart(&mut self, at_ns: u64, page_bytes: u64) {
        self.since_ns = at_ns;
        self.period.restart(at_ns);
        self.before = None;
        self.now = no_counts(page_bytes);
    }

    /// Returns whether a period is over.
    pub fn is_due(&self, at_ns: u64) -> bool {
        self.period.is_over(at_ns)
    }

    /// Ends a period, and returns the moves that it confirms: none after the first period, or if
    /// two periods disagree.
    ///
    /// # Errors
    /// If the process is gone or cannot be read.
    pub fn place(
        &mut self,
        machine: &dyn Machine,
        spread: &SpreadProcess<'_>,
        at_ns: u64,
    ) -> Result<Vec<PageMove>> {
        let page_bytes = machine.page_bytes();
        let ns = at_ns.saturating_sub(self.since_ns);
        let before = self.before.take();
        let now = std::mem::replace(&mut self.now, no_counts(page_bytes));
        let moves = match &before {
            Some((before, before_ns)) => {
                let plan =
                    plan_moves(before, places(machine, spread, before)?, &spread.rules(*before_ns));
                let moves = confirmed(plan.moves, &now, &spread.rules(ns));
                self.hold_back(moves, at_ns, page_bytes)
            }
            None => Vec::new(),
        };
        self.period.start(at_ns, before.is_some() && moves.is_empty(), PERIOD_NS);
        self.since_ns = at_ns;
        self.before = Some((now, ns));
        Ok(spread.page_moves(moves, page_bytes))
    }

    /// Removes pages from `moves` that were moved before and have not stayed on their node for long
    /// enough.
    fn hold_back(&mut self, moves: Vec<HotMove>, at_ns: u64, page_bytes: u64) -> Vec<HotMove> {
        if self.stays.is_over(at_ns) {
            self.stays.start(at_ns, true, STAYS_NS);
            self.placed = PageSet::new(page_bytes);
        }
        let is_new = |each: &HotMove| self.placed.count_in(each.range(page_bytes)) == 0;
        let moves: Vec<_> = moves.into_iter().filter(is_new).collect();
        moves.iter().for_each(|each| self.placed.insert_range(each.range(page_bytes)));
        moves
    }
}

fn no_counts(page_bytes: u64) -> PageAccessCounts {
    PageAccessCounts::with_capacity(page_bytes, PAIRS_MAX)
}

/// Returns the folios and nodes of the counted pages.
fn places(
    machine: &dyn Machine,
    spread: &SpreadProcess<'_>,
    counts: &PageAccessCounts,
) -> Result<impl Fn(u64) -> Option<FolioLocation>> {
    let mut seen = PageSet::new(machine.page_bytes());
    counts.pages().for_each(|address| _ = seen.insert(address));
    let places = locate_folios(machine, spread.process, seen)?;
    Ok(move |address| places.get(&address).copied())
}

impl SpreadProcess<'_> {
    fn rules(&self, period_ns: u64) -> HotPageRules {
        HotPageRules {
            costs: self.costs.clone(),
            destinations: self.nodes.clone(),
            misses_per_count: (self.horizon_ns / period_ns.max(1)).max(1),
            pages_max: self.pages_max,
        }
    }

    /// Groups moves by destination.
    fn page_moves(&self, moves: Vec<HotMove>, page_bytes: u64) -> Vec<PageMove> {
        let mut by_node: BTreeMap<NodeId, Vec<HotMove>> = BTreeMap::new();
        moves.into_iter().for_each(|each| by_node.entry(each.to).or_default().push(each));
        let page_move = |(to, moves): (NodeId, Vec<HotMove>)| {
            let sum = |of: fn(&HotMove) -> u64| moves.iter().map(of).sum();
            let order = MemoryMove {
                entity: self.entity,
                from: moves.iter().map(|each| each.from).collect(),
                to,
                pages_max: sum(|each| u64::from(each.pages)),
                gain_ns: sum(|each| each.saved_ns),
                cost_ns: sum(|each| each.cost_ns),
                reason: Reason::ByPage,
            };
            let mut ranges: Vec<_> = moves.iter().map(|each| each.range(page_bytes)).collect();
            ranges.sort_unstable();
            (order, ranges)
        };
        by_node.into_iter().map(page_move).collect()
    }
}
