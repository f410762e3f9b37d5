//! Exchange of pages between nodes when none has room for all pages that arrive.
//!
//! All units are examined first. Pages that are to move are divided into parcels, which take turns
//! (`policy::exchange`) and are examined again at their turn. A parcel that finds no room waits for
//! the next round. The exchange ends when a round moves nothing, because no free page is left to
//! borrow.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use nodeward_model::{NodeHeadroom, NodeId, NodePairs, Nodemask, PageSet, Range, SkipReason};
use nodeward_policy::exchange::{Parcel, parcel_bytes, transfer_order};
use nodeward_policy::folio_plan::{FolioMove, FolioPlan, MoveOrder};

use crate::MoveRequest;
use crate::deferred_retries::DeferredRetries;
use crate::folio_mover::{FolioMoveOutcome, is_out_of_memory};
use crate::move_context::MoveContext;
use crate::outcomes::{ProcessOutcomes, UnitOutcome};
use crate::request::whole_pages;
use crate::survey::Unit;
use crate::worker_pool::WorkerPool;

/// After this many parcels per worker in succession found no room, the others wait for the next
/// round: the kernel searches long for a page where there is none.
const FRUITLESS_PER_WORKER: u32 = 4;

/// Returns whether pages arrive at a node that other pages leave.
pub fn is_exchange(request: &MoveRequest) -> bool {
    let sources: Nodemask = pairs(request).map(|(from, _)| from).collect();
    pairs(request).any(|(_, to)| sources.contains(to))
}

/// Moves all units. Also returns the number of workers in use at the end of a round, the largest of
/// all rounds.
pub fn carry_out(
    work: &MoveContext<'_>,
    worker_pool: &WorkerPool<'_>,
    units: &[Unit],
) -> (ProcessOutcomes, u32) {
    let cutter = ParcelCutter::new(work, worker_pool.workers_max());
    let mut tallies = ProcessOutcomes::new(work.processes.len());
    let mut parcels = cutter.parcels(worker_pool, units, &mut tallies);
    let mut workers = 1;
    let leftovers = DeferredRetries::new(work);
    let goes_alone = units.iter().any(Unit::must_run_alone);
    while !parcels.is_empty() {
        let moved_before = tallies.moved();
        let turns = batches_in_turn(parcels, &cutter.headroom());
        let round = ExchangeRound::new(work, worker_pool.workers_max());
        let (results, used) = match goes_alone {
            true => (worker_pool.run_one_by_one(&turns, |loads| round.parcels(loads)), 1),
            false => worker_pool.run_all(&turns, |loads| round.parcels(loads)),
        };
        workers = workers.max(used);
        let outcomes = turns.into_iter().flatten().zip(results.into_iter().flatten());
        let enter = |(load, result)| cutter.record(load, result, &leftovers, &mut tallies);
        parcels = outcomes.filter_map(enter).collect();
        if tallies.moved() == moved_before || work.control.is_stopped() {
            parcels.drain(..).for_each(|load| skip_parcel(work, &load, &mut tallies));
        }
    }
    leftovers.retry_all(&mut tallies);
    (tallies, workers)
}

/// A parcel, and the unit with its pages.
type ParcelUnit = (Parcel, Unit);

/// The outcome of a parcel; `None` if it was not tried.
type ParcelResult = Option<(UnitOutcome, FolioMoveOutcome)>;

fn pairs(request: &MoveRequest) -> impl Iterator<Item = (NodeId, NodeId)> + '_ {
    request.orders.iter().flat_map(|orders| orders.iter()).flat_map(|order| order.pairs.iter())
}

/// Orders parcels by turn and groups them as one worker takes them: one of each direction. Pages
/// that leave a node go to the page lists of the CPU that moves them, which other CPUs cannot use;
/// the same worker's next parcel uses them.
fn batches_in_turn(parcels: Vec<ParcelUnit>, room: &BTreeMap<NodeId, u64>) -> Vec<Vec<ParcelUnit>> {
    let described: Vec<Parcel> = parcels.iter().map(|(parcel, _)| *parcel).collect();
    let directions: BTreeSet<_> = described.iter().map(|p| (p.from, p.to)).collect();
    let mut waiting: Vec<Option<ParcelUnit>> = parcels.into_iter().map(Some).collect();
    let turns = transfer_order(&described, room);
    let together = |turns: &[usize]| turns.iter().filter_map(|&i| waiting[i].take()).collect();
    turns.chunks(directions.len().max(1)).map(together).collect()
}

/// Accounts for a parcel for which there is no room.
fn skip_parcel(work: &MoveContext<'_>, (parcel, unit): &ParcelUnit, tallies: &mut ProcessOutcomes) {
    let reason = match (work.control.is_stopped(), unit.hugetlb) {
        (true, _) => SkipReason::Interrupted,
        (false, true) => SkipReason::NoHugePage,
        (false, false) => SkipReason::NoMemory,
    };
    let mut tally = UnitOutcome::default();
    tally.account.skip(reason, parcel.bytes / work.machine.page_bytes());
    tallies.add(unit.process, &tally, None);
    work.control.add_examined(parcel.bytes);
}

/// Returns the bytes that a node can take before the kernel reclaims: zero if the machine cannot
/// read them, because then no room can be relied upon, and no limit for a node that it does not
/// list.
fn headroom_bytes(work: &MoveContext<'_>, node: NodeId) -> u64 {
    let room = |rooms: BTreeMap<NodeId, NodeHeadroom>| match rooms.get(&node) {
        Some(room) => room.free_pages * work.machine.page_bytes(),
        None => u64::MAX,
    };
    work.machine.headroom().map_or(0, room)
}

/// Divides plans into parcels.
struct ParcelCutter<'a> {
    context: &'a MoveContext<'a>,
    /// Nodes that pages may be on.
    nodes: Nodemask,
    parcel_bytes: u64,
}

impl<'a> ParcelCutter<'a> {
    fn new(work: &'a MoveContext<'a>, workers: u32) -> Self {
        let known = work.machine.topology().map(|topology| topology.nodes_with_memory());
        let named = pairs(work.request).flat_map(|(from, to)| [from, to]);
        let nodes = known.unwrap_or_default().iter().chain(named).collect();
        let mut cutter = Self { context: work, nodes, parcel_bytes: 0 };
        let least = cutter.headroom().values().copied().min().unwrap_or(0);
        cutter.parcel_bytes = parcel_bytes(least, workers);
        cutter
    }

    /// Returns the room in bytes on the destination nodes.
    fn headroom(&self) -> BTreeMap<NodeId, u64> {
        pairs(self.context.request).map(|(_, to)| (to, headroom_bytes(self.context, to))).collect()
    }

    /// Examines all units, accounts for pages that stay, and divides the others into parcels.
    fn parcels(
        &self,
        worker_pool: &WorkerPool<'_>,
        units: &[Unit],
        tallies: &mut ProcessOutcomes,
    ) -> Vec<ParcelUnit> {
        let (looks, _) = worker_pool.run_all(units, |unit| {
            let look = self.context.look(unit);
            (look.map(|plan| (UnitOutcome::of(&plan), self.cut(unit, &plan))), 0)
        });
        let mut parcels = Vec::new();
        for (unit, look) in units.iter().zip(looks) {
            let (tally, error, found) = match look {
                Ok((tally, found)) => (tally, None, found),
                Err(error) if error.is_gone() => (UnitOutcome::default(), None, Vec::new()),
                Err(error) => (UnitOutcome::default(), Some(error), Vec::new()),
            };
            tallies.add(unit.process, &tally, error);
            let to_move: u64 = found.iter().map(|(parcel, _)| parcel.bytes).sum();
            self.context.control.add_examined(unit.bytes.saturating_sub(to_move));
            parcels.extend(found);
        }
        parcels
    }

    fn cut(&self, unit: &Unit, plan: &FolioPlan) -> Vec<ParcelUnit> {
        let mut moves = plan.moves.clone();
        moves.sort_by_key(|folio| (folio.from, folio.to, folio.address));
        let same = |a: &FolioMove, b: &FolioMove| (a.from, a.to) == (b.from, b.to);
        let mut parcels = Vec::new();
        for mut rest in moves.chunk_by(same) {
            while !rest.is_empty() {
                let mut bytes = 0;
                let fits = |folio: &&FolioMove| {
                    bytes += u64::from(folio.pages) * self.context.machine.page_bytes();
                    bytes <= self.parcel_bytes
                };
                let count = rest.iter().take_while(fits).count().max(1);
                parcels.push(self.parcel_unit(unit, &rest[..count]));
                rest = &rest[count..];
            }
        }
        parcels
    }

    /// Makes a parcel of folios with one source and one destination. Its order sends the pages to
    /// the destination from any node that they are on when its turn comes.
    fn parcel_unit(&self, unit: &Unit, folios: &[FolioMove]) -> ParcelUnit {
        let page_bytes = self.context.machine.page_bytes();
        let FolioMove { from, to, .. } = folios[0];
        let mut pages = PageSet::new(page_bytes);
        for folio in folios {
            let end = folio.address + u64::from(folio.pages) * page_bytes;
            pages.insert_range(Range::new(folio.address, end));
        }
        let bytes = pages.len() * page_bytes;
        let pieces = unit.pieces.iter().flat_map(|(mapping, range)| {
            let parts = whole_pages(&pages.covering_ranges(*range), mapping, page_bytes);
            parts.into_iter().map(|part| (Arc::clone(mapping), part))
        });
        let pieces = pieces.collect();
        let order = MoveOrder { pairs: NodePairs::all_to(&self.nodes, to), pages: Some(pages) };
        let Unit { process, hugetlb, stays, .. } = *unit;
        let orders = [order].into();
        (Parcel { from, to, bytes }, Unit { process, pieces, bytes, hugetlb, stays, orders })
    }

    /// Records the outcome of a parcel; returns the rest of it for the next round.
    fn record(
        &self,
        load: ParcelUnit,
        result: ParcelResult,
        leftovers: &DeferredRetries<'_>,
        tallies: &mut ProcessOutcomes,
    ) -> Option<ParcelUnit> {
        let Some((mut tally, outcome)) = result else {
            return Some(load);
        };
        let (parcel, unit) = load;
        let (no_room, refused): (Vec<_>, Vec<_>) =
            outcome.refused.into_iter().partition(|&(_, reason)| is_out_of_memory(reason));
        leftovers.defer(&unit, refused, &mut tally.account);
        // The first look has counted these already.
        tally.before.clear();
        tally.before_in_flight = 0;
        tallies.add(unit.process, &tally, outcome.error);
        let folios: Vec<FolioMove> = no_room.iter().map(|(folio, _)| *folio).collect();
        let left = (!folios.is_empty()).then(|| self.parcel_unit(&unit, &folios));
        let left_bytes = left.as_ref().map_or(0, |(left, _)| left.bytes);
        self.context.control.add_examined(parcel.bytes.saturating_sub(left_bytes));
        left
    }
}

/// One turn for each parcel.
struct ExchangeRound<'a> {
    context: &'a MoveContext<'a>,
    fruitless: AtomicU32,
    fruitless_max: u32,
}

impl<'a> ExchangeRound<'a> {
    fn new(work: &'a MoveContext<'a>, workers: u32) -> Self {
        let fruitless_max = FRUITLESS_PER_WORKER * workers;
        Self { context: work, fruitless: AtomicU32::new(0), fruitless_max }
    }

    fn parcels(&self, loads: &[ParcelUnit]) -> (Vec<ParcelResult>, u64) {
        let results: Vec<ParcelResult> = loads.iter().map(|load| self.parcel(load)).collect();
        let moved = results.iter().flatten().map(|(tally, _)| tally.account.moved).sum::<u64>();
        (results, moved * self.context.machine.page_bytes())
    }

    fn parcel(&self, (parcel, unit): &ParcelUnit) -> ParcelResult {
        if !self.context.control.is_stopped() && !self.may_have_headroom(parcel, unit) {
            return None;
        }
        let (tally, outcome) = self.context.move_unit(unit);
        let is_full = outcome.refused.iter().any(|&(_, reason)| is_out_of_memory(reason));
        match outcome.moved.is_empty() && is_full {
            true => _ = self.fruitless.fetch_add(1, Ordering::Relaxed),
            false => self.fruitless.store(0, Ordering::Relaxed),
        }
        Some((tally, outcome))
    }

    fn may_have_headroom(&self, parcel: &Parcel, unit: &Unit) -> bool {
        if self.fruitless.load(Ordering::Relaxed) >= self.fruitless_max {
            return false;
        }
        // Huge pages come from pools of their own.
        unit.hugetlb || headroom_bytes(self.context, parcel.to) >= parcel.bytes
    }
}
