//! Access counts: which node used which page of spread processes, where the machine counts it, and
//! which pages go to which of their nodes for that.
//!
//! Counts of one time choose (`policy::hot::choose`), those of the next confirm (`confirmed`): of
//! pages that all nodes use alike nothing moves. A page that was sent somewhere stays there for a
//! minute at least, then two, and so on: whatever programs do, no page goes to and fro for ever.

use std::collections::BTreeMap;

use nodeward_machine::{Machine, Process, Result};
use nodeward_model::{Access, NodeId, Nodemask, PageSet, Range};
use nodeward_mover::locate_folios;
use nodeward_policy::damping::Retry;
use nodeward_policy::hot::{
    FolioLocation, HotMove, HotPageRules, MissCosts, PageAccessCounts, confirmed, plan_moves,
};
use nodeward_policy::placement::{EntityId, MemoryMove, Reason};

/// Accesses are counted for so long at first, in nanoseconds, and for twice as long whenever
/// nothing came of it, up to the second.
const PERIOD_NS: [u64; 2] = [2_000_000_000, 64_000_000_000];
/// Pairs of a page and a node in the counts of a period, some 50 MB; what is used beyond that is
/// not seen.
const PAIRS_MAX: usize = 1 << 20;
/// A page stays where it was sent for so long at first, in nanoseconds, and an hour at last.
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
    /// Those of the period before, and how long that was in nanoseconds.
    before: Option<(PageAccessCounts, u64)>,
    now: PageAccessCounts,
    placed: PageSet,
    stays: Retry,
}

/// What is known of a process whose pages are to be placed.
pub struct SpreadProcess<'a> {
    pub entity: EntityId,
    pub process: &'a dyn Process,
    /// Where its pages may go.
    pub nodes: &'a Nodemask,
    /// For how long moves may take to pay, in nanoseconds.
    pub horizon_ns: u64,
    /// For how many base pages there is room where it is at home.
    pub pages_max: u64,
    pub costs: MissCosts,
}

/// Memory to bring to a node, and where it lies.
pub type PageMove = (MemoryMove, Vec<Range>);

impl AccessCounts {
    /// Goes on with these processes only.
    pub fn keep(&mut self, is_wanted: impl Fn(EntityId) -> bool) {
        self.processes.retain(|&entity, _| is_wanted(entity));
    }

    /// Adds what was counted of a process by CPUs of a node, if its counts have begun.
    pub fn add(&mut self, entity: EntityId, access: Access, from: NodeId) {
        if let Some(count) = self.processes.get_mut(&entity) {
            count.now.add(access.address, from, access.count);
        }
    }

    /// The counts of a process, which begin now if there are none.
    pub fn of(&mut self, entity: EntityId, at_ns: u64, page_bytes: u64) -> &mut ProcessCounts {
        self.processes.entry(entity).or_insert_with(|| ProcessCounts::new(at_ns, page_bytes))
    }

    /// The length of the shortest period of all, in nanoseconds; of a first one if none has begun.
    pub fn period_ns_min(&self) -> u64 {
        let periods = self.processes.values().map(|counts| counts.period.length_ns());
        periods.min().unwrap_or(PERIOD_NS[0])
    }

    /// How many pages of a process were seen to be used in this period; `None` if nothing counts.
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

    /// Begins anew: all its pages may be elsewhere soon.
    pub fn restart(&mut self, at_ns: u64, page_bytes: u64) {
        self.since_ns = at_ns;
        self.period.restart(at_ns);
        self.before = None;
        self.now = no_counts(page_bytes);
    }

    /// Whether a period is over.
    pub fn is_due(&self, at_ns: u64) -> bool {
        self.period.is_over(at_ns)
    }

    /// Ends a period. What is to go where now: nothing after the first, or if two disagree.
    ///
    /// # Errors
    /// If the process is gone or cannot be looked into.
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

    /// Leaves where they are what was sent there before, until it has stayed for long enough.
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

/// Where the pages are that were counted.
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

    /// The moves by destination.
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
