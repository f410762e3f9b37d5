//! The thread behind page faults: it brings in pages that were left out, or zeros where no page
//! was.
//!
//! It does nothing for pages in flight: the lane that carries them wakes the waiting threads.
//!
//! It never allocates or frees, and takes no lock that is held while allocating: the faulting
//! thread may be inside malloc(3), or in a signal handler that interrupted it. A porter thread does
//! the work that needs memory.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, RwLock, RwLockWriteGuard};
use std::thread::JoinHandle;

use nodeward_linux::own;
use nodeward_model::NodeId;
use rustix::event::{PollFd, PollFlags, poll};

use crate::CHUNK_BYTES;
use crate::carrier::Carrier;
use crate::chunk::Work;
use crate::core::Core;
use crate::desk::Turn;
use crate::error::Result;
use crate::lanes::start_thread;
use crate::porter::Porter;
use crate::shop::Shop;
use crate::stop::{self, Stop};
use crate::sync::{Mutex, hold_signals, lock};
use crate::sys::{Fault, Uffd};

/// The regions of a pager.
#[derive(Default)]
pub struct Regions(RwLock<Known>);

#[derive(Default)]
struct Known {
    /// In ascending order of addresses.
    regions: Vec<Arc<Core>>,
    /// Number of pauses that have not ended.
    pauses: usize,
}

impl Regions {
    /// Adds a region. A region that is added during a pause is paused, too.
    pub fn add(&self, core: &Arc<Core>) {
        self.change(|known, others| {
            (0..known.pauses).for_each(|_| core.desk.pause());
            let place = known.regions.partition_point(|other| other.mapping.start() < start(core));
            others.append(&mut known.regions);
            others.insert(place, Arc::clone(core));
            std::mem::swap(&mut known.regions, others);
        });
    }

    /// Removes a region.
    pub fn remove(&self, core: &Core) {
        let _held = hold_signals();
        let mut known = self.known_mut();
        let place = known.regions.iter().position(|other| start(other) == start(core));
        let removed = place.map(|place| known.regions.remove(place));
        drop(known);
        drop(removed); // dropped without the lock
    }

    /// Stops taking pages out of sight in all regions. Returns the regions.
    pub fn pause(&self) -> Vec<Arc<Core>> {
        let regions = self.change(|known, regions| {
            known.pauses += 1;
            regions.extend(known.regions.iter().cloned());
        });
        regions.iter().for_each(|core| core.desk.pause());
        regions
    }

    /// Ends a pause.
    pub fn resume(&self) {
        let _held = hold_signals();
        let mut known = self.known_mut();
        known.pauses -= 1;
        known.regions.iter().for_each(|core| core.desk.resume());
    }

    /// Calls `serve` with the region that contains an address, if any. Regions cannot be added or
    /// removed meanwhile.
    fn with(&self, address: u64, serve: impl FnOnce(Option<&Core>)) {
        let known = self.0.read().expect("not poisoned");
        let end = known.regions.partition_point(|core| start(core) <= address);
        let before = end.checked_sub(1).map(|last| &*known.regions[last]);
        serve(before.filter(|core| address - start(core) < core.mapping.bytes() as u64));
    }

    /// Runs `change` with a vector that has room for one more region than there are, and returns
    /// the vector's content. No thread allocates, frees or runs a signal handler with the lock.
    fn change(&self, change: impl FnOnce(&mut Known, &mut Vec<Arc<Core>>)) -> Vec<Arc<Core>> {
        let _held = hold_signals();
        let mut room = Vec::new();
        loop {
            let mut known = self.known_mut();
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

    fn known_mut(&self) -> RwLockWriteGuard<'_, Known> {
        self.0.write().expect("not poisoned")
    }
}

fn start(core: &Core) -> u64 {
    core.mapping.start()
}

/// The thread, and the means to end it.
pub struct Handler {
    /// Ends when this is dropped, because then no sender is left.
    _porter: Porter,
    stop: Mutex<Option<Stop>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Handler {
    /// Starts the thread. `lane` is a number that no lane has.
    pub fn start(shop: &Arc<Shop>, regions: &Arc<Regions>, lane: usize) -> Result<Self> {
        let (stopped, stop) = stop::pipe()?;
        let porter = Porter::start(shop, lane)?;
        let mut carrier = Carrier::new(Arc::clone(shop), lane);
        carrier.porter = Some(porter.errands(shop));
        let regions = Arc::clone(regions);
        let thread = start_thread("nodeward-faults".to_owned(), move || {
            serve(carrier, &regions, &stopped).expect("userfaultfd can be read");
        })?;
        Ok(Self { _porter: porter, stop: Mutex::new(Some(stop)), thread: Mutex::new(Some(thread)) })
    }

    /// Ends the thread. No region is left by then.
    pub fn stop(&self) {
        lock(&self.stop).take().into_iter().for_each(Stop::tell);
        if let Some(thread) = lock(&self.thread).take() {
            thread.join().expect("a handler that panics aborts the process");
        }
    }
}

fn serve(mut carrier: Carrier, regions: &Regions, stopped: &OwnedFd) -> io::Result<()> {
    let uffd = Arc::clone(&carrier.shop.uffd);
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
            regions.with(fault.address, |core| match core {
                Some(core) => serve_fault(&mut carrier, core, fault),
                None => serve_stranger(&uffd, fault),
            });
        }
        if let Some((size, node, shadow)) = carrier.stock.ready.take() {
            carrier.give((size, Some(node), shadow));
        }
    }
}

fn serve_fault(carrier: &mut Carrier, core: &Core, fault: &Fault) {
    let offset = (fault.address - core.mapping.start()) as usize;
    let (chunk, page) = (offset / CHUNK_BYTES, offset % CHUNK_BYTES / core.shop.page_bytes);
    // While the region is being dropped no thread may use it; its end wakes the threads left.
    let Turn::Claimed(claim) = core.desk.claim_for_fault(chunk) else { return };
    let toucher = node_of(&core.shop, fault.thread);
    let mut work = Work { carrier, core, claim };
    work.serve(page, toucher);
    core.release(work.claim);
}

/// Brings in zeros at an address outside all regions. Only code that walks every mapping touches
/// slots by address, as mlockall(2) and debuggers do. It must not wait for ever, and it wants the
/// next page next, so the rest of the chunk is filled: otherwise mlockall faults 131,072 times for
/// the first slots alone.
fn serve_stranger(uffd: &Uffd, fault: &Fault) {
    let rest = CHUNK_BYTES as u64 - fault.address % CHUNK_BYTES as u64;
    // Stops at the first page that is present. If that is the faulting one, because a lane took a
    // page out to there, the call wakes no thread, so wake it explicitly.
    if uffd.zero(fault.address, rest).is_err() {
        uffd.wake(fault.address, rest).ok();
    }
}

/// Returns the node that a thread runs on now.
fn node_of(shop: &Shop, tid: u32) -> Option<NodeId> {
    shop.only_node().or_else(|| shop.topology.node_of_cpu(own::cpu_of_thread(tid)?))
}
