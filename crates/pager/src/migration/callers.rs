//! Small work on the calling thread, where nothing else is in flight: handing it to a lane would
//! cost many times the work itself.
//!
//! For as long as it works, the thread is like a lane: it runs no signal handler and cannot be
//! cancelled, it waits for no claim while it holds one, and it neither allocates nor frees while
//! pages are out of sight. A chunk that is claimed, or a thread that could come to wait for itself,
//! is left to a lane.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use nodeward_linux::mempolicy;

use super::batch_runner::BatchRunner;
use super::claimed_chunk::ClaimedChunk;
use super::job::JobKind;
use super::lane_slots::restore_policy;
use super::options::MoveOptions;
use super::page_skips::PageSkips;
use super::report::MigrationReport;
use super::task::{ChunkTask, EndRequest, TaskControl};
use crate::context::PagerContext;
use crate::pager_thread::CallerAtWork;
use crate::region::{ChunkState, Claim, RegionShared, RegionTable};
use crate::sync::spin_loop;
use crate::sys::{TryLock, TryLockGuard, current_cpu};

/// Most threads that work at a time; each has buffers of some 50 KiB.
const CALLERS_MAX: usize = 64;
/// Looks at a claimed chunk before it is left to a lane, each after a pause of some 100 ns: the
/// thread behind page faults wakes a thread a moment before it releases the chunk.
const LOOKS: usize = 20;
const PAUSES_BETWEEN_LOOKS: usize = 16;
/// Buffers that a thread tries, from that of its CPU on, before it leaves the work to a lane.
const TRIES: usize = 4;

/// The buffers of threads that call.
pub struct Callers {
    context: Arc<PagerContext>,
    regions: Arc<RegionTable>,
    /// The first number that no lane has.
    first_lane: usize,
    /// Made when first needed, one for each CPU.
    places: Box<[TryLock<Option<Box<CallerBuffers>>>]>,
}

/// What a thread works with.
struct CallerBuffers {
    runner: BatchRunner,
    /// The outcome of the task, with room for every reason.
    report: MigrationReport,
}

impl Callers {
    /// Buffers for as many threads as there are CPUs. From `first_lane` on, numbers are of no lane.
    pub fn new(context: &Arc<PagerContext>, regions: &Arc<RegionTable>, first_lane: usize) -> Self {
        let cpus = context.topology().cpus.len().clamp(1, CALLERS_MAX);
        Self {
            context: Arc::clone(context),
            regions: Arc::clone(regions),
            first_lane,
            places: (0..cpus).map(|_| TryLock::new(None)).collect(),
        }
    }

    /// Does a task on the calling thread, if that needs no waiting. Adds the outcome to `report`,
    /// and calls `skipped` with the reasons of single pages. Returns whether the task is done; if
    /// not, nothing was.
    pub fn run_task(
        &self,
        region: &RegionShared,
        (kind, options): (&JobKind, &MoveOptions),
        task: &ChunkTask,
        (report, skipped): (&mut MigrationReport, &mut dyn FnMut(&PageSkips)),
    ) -> bool {
        let at_work = CallerAtWork::begin();
        let allocates = !kind.unmaps_nothing();
        if self.is_stack_managed() || (allocates && !self.may_prefer_nodes()) {
            return false;
        }
        let Some(mut place) = self.free_place() else { return false };
        let Some(caller) = place.as_deref_mut() else { return false };
        let done = caller.run_claimed(region, (kind, options), task);
        caller.runner.slots.return_all();
        restore_policy();
        if done && kind.reports() {
            report.add(&caller.report);
            skipped(&caller.runner.skips);
        }
        drop(place);
        drop(at_work);
        done
    }

    /// Returns whether a chunk is at rest: no thread has it, and all of its pages are in sight.
    pub fn is_settled(region: &RegionShared, chunk: usize) -> bool {
        let _at_work = CallerAtWork::begin();
        region.claims.is_settled(chunk)
    }

    /// Returns whether the thread's own stack is in a region: it may be among the pages that are
    /// out of sight.
    fn is_stack_managed(&self) -> bool {
        let here = 0_u8;
        let mut is_managed = false;
        let address = (&raw const here).addr() as u64;
        self.regions.with_region_at(address, |region| is_managed = region.is_some());
        is_managed
    }

    /// Returns whether the thread's memory policy can be changed for a moment: it is the default
    /// one, which is restored exactly.
    fn may_prefer_nodes(&self) -> bool {
        self.context.has_one_node() || mempolicy::is_default()
    }

    /// Returns buffers that no other thread uses.
    fn free_place(&self) -> Option<TryLockGuard<'_, Option<Box<CallerBuffers>>>> {
        let (own, places) = (current_cpu() as usize, self.places.len());
        let mut nearest = (0..TRIES.min(places)).map(|other| (own + other) % places);
        let (index, mut place) =
            nearest.find_map(|index| Some((index, self.places[index].try_lock()?)))?;
        place.get_or_insert_with(|| {
            let lane = self.first_lane + index;
            let runner = BatchRunner::for_caller(Arc::clone(&self.context), lane);
            Box::new(CallerBuffers { runner, report: MigrationReport::preallocated() })
        });
        Some(place)
    }
}

impl CallerBuffers {
    /// Claims the chunk, does the task and releases the chunk. Returns `false` if that would need
    /// waiting.
    fn run_claimed(
        &mut self,
        region: &RegionShared,
        (kind, options): (&JobKind, &MoveOptions),
        task: &ChunkTask,
    ) -> bool {
        let Some(claim) = claim_soon(region, kind, task.chunk) else { return false };
        if kind.reports() {
            self.report.clear();
        }
        let (stop, examined_bytes) = (EndRequest::default(), AtomicU64::new(0));
        let control = TaskControl::new(&stop, &examined_bytes, 0);
        let work = ClaimedChunk { runner: &mut self.runner, region, claim };
        let claim = work.run(kind, task, options, (&control, &mut None), &mut self.report);
        if let Some(claim) = claim {
            region.release(claim);
        }
        true
    }
}

/// Claims a chunk as work of this kind does, if it is free within some microseconds.
fn claim_soon(region: &RegionShared, kind: &JobKind, chunk: usize) -> Option<Claim<ChunkState>> {
    let claim = || match kind.unmaps_nothing() {
        true => region.claims.try_claim_to_return(chunk),
        false => region.claims.try_claim(chunk),
    };
    claim().or_else(|| {
        (0..LOOKS).find_map(|_| {
            (0..PAUSES_BETWEEN_LOOKS).for_each(|_| spin_loop());
            claim()
        })
    })
}
