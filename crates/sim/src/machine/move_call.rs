//! A call that moves pages, processed in the order of the kernel's `do_pages_move`: consecutive
//! entries with the same destination are moved together, and the first folio that cannot move ends
//! the call.
//!
//! The whole call runs on one thread, which competes with other tasks for its CPU.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use nodeward_machine::{
    CallEnd, EntryRefusal, EntryStatus, MovePagesCall, MovePagesOutcome, SEPARATOR,
};
use nodeward_model::{NodeId, Page, PageLocation, SkipReason};

use crate::cpu::Op;
use crate::hardware::CpuIndexSet;
use crate::ids::{SpaceId, TaskId};
use crate::memory::{AddressSpace, Folio, MemoryRegion};
use crate::migration::{ATTEMPTS, BatchMigration, FolioOutcome};
use crate::statistics::CpuTimeKind;
use crate::world::{TaskProgram, World};

/// The memory of a process, looked up by address.
#[derive(Clone, Copy, Debug)]
pub struct ProcessMemory {
    /// The process.
    pub space: SpaceId,
    /// Bytes per base page.
    pub page_bytes: u64,
}

impl ProcessMemory {
    /// Returns the space, the region and the page index of an address.
    fn locate(self, world: &World, address: u64) -> Option<(SpaceId, usize, u64)> {
        let AddressSpace { regions, segments, .. } = &world.spaces[self.space];
        let of_segment = segments.partition_point(|mapping| mapping.start <= address);
        let (space, index, offset) = match of_segment.checked_sub(1) {
            Some(at) => (segments[at].space, 0, address - segments[at].start),
            None => {
                let behind = regions.partition_point(|region| region.start <= address);
                let index = behind.checked_sub(1)?;
                (self.space, index, address - regions[index].start)
            }
        };
        let page = world.spaces[space].regions.get(index)?.page_at(offset)?;
        Some((space, index, page))
    }

    /// Returns the page at an address.
    pub fn page(self, world: &World, address: u64) -> Page {
        let Some((space, region, page)) = self.locate(world, address) else {
            return Page::ABSENT;
        };
        let region = &world.spaces[space].regions[region];
        let folio = region.folio(page);
        let folio_pages = match page - folio.start {
            0 => u32::try_from(folio.end - folio.start).unwrap_or(1),
            _ => 0,
        };
        Page {
            location: page_location(world, region, page),
            shared: region.is_shared(page),
            folio_pages,
        }
    }

    fn folio(self, world: &World, address: u64) -> Option<(SpaceId, Folio)> {
        let (space, index, page) = self.locate(world, address)?;
        let region = &world.spaces[space].regions[index];
        Some((space, Folio { region: index, pages: region.folio(page) }))
    }
}

fn page_location(world: &World, region: &MemoryRegion, page: u64) -> PageLocation {
    let byte = region.page(page);
    match byte.node() {
        None => PageLocation::Absent,
        Some(_) if byte.is_in_flight() => PageLocation::InFlight,
        Some(node) => PageLocation::On(world.layout.node_ids[node]),
    }
}

/// A call that has begun: its thread, and its outcome once the call has ended.
#[derive(Clone, Debug)]
pub struct PendingCall {
    /// The thread that executes the call.
    pub task: TaskId,
    outcome: Arc<Mutex<Option<MovePagesOutcome>>>,
}

impl PendingCall {
    /// Returns the outcome, or `None` while the call is running.
    pub fn outcome(&self) -> Option<MovePagesOutcome> {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl World {
    /// Begins a call on a CPU.
    pub(crate) fn start_move_call(
        &mut self,
        target: ProcessMemory,
        batch: &MovePagesCall,
        cpu: usize,
    ) -> PendingCall {
        let outcome = Arc::new(Mutex::new(None));
        let call = MoveCall {
            target,
            batch: batch.clone(),
            overhead_ns: self.machine.params.move_call_ns,
            status: Vec::with_capacity(batch.len()),
            run: Vec::new(),
            run_space: target.space,
            isolated: BTreeSet::new(),
            pending_status: None,
            migration: None,
            outcome: Arc::clone(&outcome),
        };
        let task = self.start_kernel_task(Some(CpuIndexSet::of([cpu])), Box::new(call));
        PendingCall { task, outcome }
    }
}

struct MoveCall {
    target: ProcessMemory,
    batch: MovePagesCall,
    /// Cost of entering the call, in nanoseconds. It is paid before the first page; 0 after that.
    overhead_ns: u64,
    /// Status of the entries that are finished.
    status: Vec<EntryStatus>,
    /// Folios of the entries after the finished ones. They are isolated and will be moved together.
    run: Vec<Folio>,
    /// The space that they are in: that of the process, or of a segment that it maps.
    run_space: SpaceId,
    /// The same folios, by region and first page.
    isolated: BTreeSet<(usize, u64)>,
    /// Status of the entry that ended the run, which follows the run.
    pending_status: Option<EntryStatus>,
    /// Moves the run.
    migration: Option<BatchMigration>,
    outcome: Arc<Mutex<Option<MovePagesOutcome>>>,
}

impl TaskProgram for MoveCall {
    fn next(&mut self, world: &mut World, task: TaskId) -> Op {
        match std::mem::take(&mut self.overhead_ns) {
            0 => {}
            ns => return Op::Busy(CpuTimeKind::Kernel, ns),
        }
        loop {
            if let Some(migration) = &mut self.migration {
                if let Some(op) = migration.next(world, task) {
                    return op;
                }
                let moved = migration.take_result();
                world.counters.called_pages += moved.account.moved;
                let outcomes = moved.outcomes;
                self.migration = None;
                if let Some(end) = self.finish_run(&outcomes) {
                    return self.finish_call(world, end);
                }
            }
            if let Some(end) = self.isolate_run(world) {
                return self.finish_call(world, end);
            }
        }
    }
}

impl MoveCall {
    /// Isolates folios until a run is ready to move or nothing is left to do.
    fn isolate_run(&mut self, world: &World) -> Option<CallEnd> {
        loop {
            let entry = self.status.len() + self.run.len();
            let Some(&node) = self.batch.nodes().get(entry) else {
                return if self.run.is_empty() {
                    Some(CallEnd::Complete)
                } else {
                    self.start_run(world)
                };
            };
            let same_node = self.run.is_empty() || self.batch.nodes()[entry - 1] == node;
            match destination(world, self.target.space, node) {
                Some(_) if same_node => {}
                None if self.run.is_empty() => return Some(CallEnd::NotAllowed),
                _ => return self.start_run(world),
            }
            match self.isolate_folio(world, self.batch.addresses()[entry], node) {
                Ok((space, folio)) if self.run.is_empty() || space == self.run_space => {
                    self.isolated.insert((folio.region, folio.pages.start));
                    self.run_space = space;
                    self.run.push(folio);
                }
                Ok(_) => return self.start_run(world),
                Err(status) if self.run.is_empty() => self.status.push(status),
                Err(status) => {
                    self.pending_status = Some(status);
                    return self.start_run(world);
                }
            }
        }
    }

    /// Begins to move the isolated folios.
    fn start_run(&mut self, world: &World) -> Option<CallEnd> {
        let node = self.batch.nodes()[self.status.len()];
        let Some(to) = destination(world, self.target.space, node) else {
            return Some(CallEnd::NotAllowed);
        };
        let mut migration = BatchMigration::new(self.run_space, to, ATTEMPTS);
        migration.add(self.run.clone());
        self.migration = Some(migration);
        None
    }

    /// Records the outcome of the isolated folios. Returns `Some` if the outcome ends the call.
    fn finish_run(&mut self, outcomes: &[FolioOutcome]) -> Option<CallEnd> {
        let any = |reason| outcomes.contains(&FolioOutcome::Skipped(reason));
        if any(SkipReason::NoMemory) {
            return Some(CallEnd::NoMemory);
        }
        if any(SkipReason::Pinned) {
            return Some(CallEnd::Aborted);
        }
        // Pages that were freed meanwhile need no move; the kernel reports them like moved ones.
        let node = self.batch.nodes()[self.status.len()];
        self.status.extend(self.run.drain(..).map(|_| EntryStatus::On(node)));
        self.status.extend(self.pending_status.take());
        self.isolated.clear();
        None
    }

    fn finish_call(&mut self, world: &World, end: CallEnd) -> Op {
        let ended = world.spaces[self.target.space].ended;
        let end = if ended { CallEnd::Gone } else { end };
        let mut status = std::mem::take(&mut self.status);
        status.resize(self.batch.len(), EntryStatus::Unwritten);
        let outcome = MovePagesOutcome { end, status };
        *self.outcome.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
        Op::Exit
    }

    /// Returns the folio at an address, or the status to report if that folio cannot be moved.
    fn isolate_folio(
        &self,
        world: &World,
        address: u64,
        to: NodeId,
    ) -> Result<(SpaceId, Folio), EntryStatus> {
        let page = self.target.page(world, address);
        let refused = |refusal| Err(EntryStatus::Refused(refusal));
        match page.location {
            _ if address == SEPARATOR => return refused(EntryRefusal::Fault),
            PageLocation::Absent | PageLocation::Swapped | PageLocation::InFlight => {
                return refused(EntryRefusal::Absent);
            }
            PageLocation::Unmovable => return refused(EntryRefusal::Fault),
            PageLocation::On(node) if node == to => return Err(EntryStatus::On(node)),
            PageLocation::On(_) if page.shared && !self.batch.move_shared => {
                return refused(EntryRefusal::Shared);
            }
            PageLocation::On(_) => {}
        }
        let folio = self.target.folio(world, address);
        let (space, folio) = folio.ok_or(EntryStatus::Refused(EntryRefusal::Absent))?;
        let key = (folio.region, folio.pages.start);
        match space == self.run_space && self.isolated.contains(&key) {
            true => refused(EntryRefusal::Busy),
            false => Ok((space, folio)),
        }
    }
}

/// Returns the index of a node, if pages may move there.
fn destination(world: &World, space: SpaceId, node: NodeId) -> Option<usize> {
    let may_have =
        |&index: &usize| world.has_online_memory(index) && world.cpuset_allows(space, index);
    world.machine.index_of(node).filter(may_have)
}
