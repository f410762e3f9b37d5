//! The thread behind page faults: it brings in pages that were left out, or zeros where no page
//! was.
//!
//! It does nothing for pages in flight: the lane that carries them wakes the waiting threads.
//!
//! It never allocates or frees, and takes no lock that is held while allocating: the faulting
//! thread may be inside malloc(3), or in a signal handler that interrupted it. An allocation thread
//! does the work that needs memory.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, RwLock, RwLockWriteGuard};
use std::thread::JoinHandle;

use nodeward_linux::own_process;
use nodeward_model::NodeId;
use rustix::event::{PollFd, PollFlags, poll};

use super::allocation_thread::AllocationThread;
use crate::chunk::CHUNK_BYTES;
use crate::context::PagerContext;
use crate::error::Result;
use crate::migration::{BatchRunner, ClaimedChunk};
use crate::pager_thread::{self, StopSignal, spawn_pager_thread};
use crate::region::{FaultClaim, RegionShared};
use crate::sync::{Mutex, lock};
use crate::sys::{Uffd, UffdFault, block_signals_in_scope};

/// The regions of a pager.
#[derive(Default)]
pub struct RegionTable(RwLock<RegionsByAddress>);

#[derive(Default)]
struct RegionsByAddress {
    /// In ascending order of addresses.
    regions: Vec<Arc<RegionShared>>,
    /// Number of pauses that have not ended.
    pauses: usize,
}

impl RegionTable {
    /// Adds a region. A region that is added during a pause is paused, too.
    pub fn add(&self, core: &Arc<RegionShared>) {
        self.update(|known, others| {
            (0..known.pauses).for_each(|_| core.claims.pause());
            let place = known.regions.partition_point(|other| other.mapping.start() < start(core));
            others.append(&mut known.regions);
            others.insert(place, Arc::clone(core));
            std::mem::swap(&mut known.regions, others);
        });
    }

    /// Removes a region.
    pub fn remove(&self, core: &RegionShared) {
        let _held = block_signals_in_scope();
        let mut known = self.write();
        let place = known.regions.iter().position(|other| start(other) == start(core));
        let removed = place.map(|place| known.regions.remove(place));
        drop(known);
        drop(removed); // dropped without the lock
    }

    /// Stops taking pages out of sight in all regions. Returns the regions.
    pub fn pause(&self) -> Vec<Arc<RegionShared>> {
        let regions = self.update(|known, regions| {
            known.pauses += 1;
            regions.extend(known.regions.iter().cloned());
        });
        regions.iter().for_each(|core| core.claims.pause());
        regions
    }

    /// Ends a pause.
    pub fn resume(&self) {
        let _held = block_signals_in_scope();
        let mut known = self.write();
        known.pauses -= 1;
        known.regions.iter().for_each(|core| core.claims.resume());
    }

    /// Calls `serve` with the region that contains an address, if any. Regions cannot be added or
    /// removed meanwhile.
    fn with_region_at(&self, address: u64, serve: impl FnOnce(Option<&RegionShared>)) {
        let known = self.0.read().expect("not poisoned");
        let end = known.regions.partition_point(|core| start(core) <= address);
        let before = end.checked_sub(1).map(|last| &*known.regions[last]);
        serve(before.filter(|core| address - start(core) < core.mapping.bytes() as u64));
    }

    /// Runs `change` with a vector that has room for one more region than there are, and returns
    /// the vector's content. No thread allocates, frees or runs a signal handler with the lock.
    fn update(
        &self,
        change: impl FnOnce(&mut RegionsByAddress, &mut Vec<Arc<RegionShared>>),
    ) -> Vec<Arc<RegionShared>> {
        let _held = block_signals_in_scope();
        let mut room = Vec::new();
        loop {
            let mut known = self.write();
            let count = known.regions.len();
            if count < room.capacity() {
                change(&mut known, &mut room);
                drop(known);
                return room;
            }
            drop(known);
            room.reserve(count + 1);
        }
    }

    fn write(&self) -> RwLockWriteGuard<'_, RegionsByAddress> {
        self.0.write().expect("not poisoned")
    }
}

fn start(core: &RegionShared) -> u64 {
    core.mapping.start()
}

/// The thread, and the means to end it.
pub struct FaultHandler {
    /// Ends when this is dropped, because then no sender is left.
    _allocator: AllocationThread,
    stop: Mutex<Option<StopSignal>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl FaultHandler {
    /// Starts the thread. `lane` is a number that no lane has.
    pub fn start(
        context: &Arc<PagerContext>,
        regions: &Arc<RegionTable>,
        lane: usize,
    ) -> Result<Self> {
        let (stopped, stop) = pager_thread::stop_pipe()?;
        let allocator = AllocationThread::start(context, lane)?;
        let mut runner = BatchRunner::new(Arc::clone(context), lane);
        runner.allocator = Some(allocator.client(context));
        let regions = Arc::clone(regions);
        let thread = spawn_pager_thread("nodeward-faults".to_owned(), move || {
            serve_faults(runner, &regions, &stopped).expect("userfaultfd can be read");
        })?;
        Ok(Self {
            _allocator: allocator,
            stop: Mutex::new(Some(stop)),
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Ends the thread. No region is left by then.
    pub fn stop(&self) {
        lock(&self.stop).take().into_iter().for_each(StopSignal::send);
        if let Some(thread) = lock(&self.thread).take() {
            thread.join().expect("a handler that panics aborts the process");
        }
    }
}

fn serve_faults(
    mut runner: BatchRunner,
    regions: &RegionTable,
    stopped: &OwnedFd,
) -> io::Result<()> {
    let uffd = Arc::clone(&runner.context.uffd);
    let mut faults = Vec::with_capacity(64);
    loop {
        let mut ready = [PollFd::new(&*uffd, PollFlags::IN), PollFd::new(stopped, PollFlags::IN)];
        match poll(&mut ready, None) {
            Err(rustix::io::Errno::INTR) => continue,
            result => result?,
        };
        if !ready[1].revents().is_empty() {
            return Ok(());
        }
        faults.clear();
        uffd.read_faults(&mut faults)?;
        for fault in &faults {
            regions.with_region_at(fault.address, |core| match core {
                Some(core) => serve_fault(&mut runner, core, fault),
                None => serve_unmanaged_address(&uffd, fault),
            });
        }
        if let Some((size, node, shadow)) = runner.slots.destination.take() {
            runner.return_slot((size, Some(node), shadow));
        }
    }
}

fn serve_fault(runner: &mut BatchRunner, core: &RegionShared, fault: &UffdFault) {
    let offset = (fault.address - core.mapping.start()) as usize;
    let (chunk, page) = (offset / CHUNK_BYTES, offset % CHUNK_BYTES / core.context.page_bytes);
    // While the region is being dropped no thread may use it; its end wakes the threads left.
    let FaultClaim::Claimed(claim) = core.claims.claim_for_fault(chunk) else { return };
    let toucher = node_of_thread(&core.context, fault.thread);
    let mut work = ClaimedChunk { runner, region: core, claim };
    work.serve_fault(page, toucher);
    core.release(work.claim);
}

/// Brings in zeros at an address outside all regions. Only code that walks every mapping touches
/// slots by address, as mlockall(2) and debuggers do. It must not wait for ever, and it wants the
/// next page next, so the rest of the chunk is filled: otherwise mlockall faults 131,072 times for
/// the first slots alone.
fn serve_unmanaged_address(uffd: &Uffd, fault: &UffdFault) {
    let rest = CHUNK_BYTES as u64 - fault.address % CHUNK_BYTES as u64;
    // Stops at the first page that is present. If that is the faulting one, because a lane took a
    // page out to there, the call wakes no thread, so wake it explicitly.
    if uffd.map_zeros(fault.address, rest).is_err() {
        uffd.wake(fault.address, rest).ok();
    }
}

/// Returns the node that a thread runs on now.
fn node_of_thread(context: &PagerContext, tid: u32) -> Option<NodeId> {
    context.only_node().or_else(|| context.topology.node_of_cpu(own_process::cpu_of_thread(tid)?))
}
