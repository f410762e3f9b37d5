//! The thread behind page faults: it brings what was left out, or zeros where nothing ever was.
//!
//! Of pages in flight it does nothing: who carries them wakes those who wait.

use std::collections::BTreeMap;
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
use crate::shop::Shop;
use crate::stop::{self, Stop};
use crate::sync::{Mutex, lock};
use crate::sys::{Fault, Uffd};

/// The regions of a pager.
#[derive(Default)]
pub struct Regions(RwLock<Known>);

#[derive(Default)]
struct Known {
    /// By their first address.
    regions: BTreeMap<u64, Arc<Core>>,
    /// Pauses that have not ended.
    pauses: usize,
}

impl Regions {
    /// Enters a region. One that is made while others are paused is paused, too.
    pub fn add(&self, core: &Arc<Core>) {
        let mut known = self.known_mut();
        (0..known.pauses).for_each(|_| core.desk.pause());
        known.regions.insert(core.mapping.start(), Arc::clone(core));
    }

    /// Strikes a region out.
    pub fn remove(&self, core: &Core) {
        self.known_mut().regions.remove(&core.mapping.start());
    }

    /// Lets nobody take pages out of sight in any of them. Returns them.
    pub fn pause(&self) -> Vec<Arc<Core>> {
        let mut known = self.known_mut();
        known.pauses += 1;
        let regions: Vec<Arc<Core>> = known.regions.values().cloned().collect();
        drop(known);
        regions.iter().for_each(|core| core.desk.pause());
        regions
    }

    /// Ends a pause.
    pub fn resume(&self) {
        let mut known = self.known_mut();
        known.pauses -= 1;
        known.regions.values().for_each(|core| core.desk.resume());
    }

    /// The region with an address. If there is none, then `stranger` is called, and no region
    /// begins there meanwhile.
    fn at(&self, address: u64, stranger: impl FnOnce()) -> Option<Arc<Core>> {
        let known = self.0.read().expect("not poisoned");
        let before = known.regions.range(..=address).next_back();
        let inside =
            |(start, core): &(&u64, &Arc<Core>)| address - **start < core.mapping.bytes() as u64;
        let found = before.filter(inside).map(|(_, core)| Arc::clone(core));
        if found.is_none() {
            stranger();
        }
        found
    }

    fn known_mut(&self) -> RwLockWriteGuard<'_, Known> {
        self.0.write().expect("not poisoned")
    }
}

/// The thread, and where it is told to go.
pub struct Handler {
    stop: Mutex<Option<Stop>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Handler {
    /// Starts it. `lane` is a number that no lane has.
    pub fn start(shop: &Arc<Shop>, regions: &Arc<Regions>, lane: usize) -> Result<Self> {
        let (stopped, stop) = stop::pipe()?;
        let carrier = Carrier::new(Arc::clone(shop), lane);
        let regions = Arc::clone(regions);
        let thread = start_thread("nodeward-faults".to_owned(), move || {
            serve(carrier, &regions, &stopped).expect("userfaultfd can be read");
        })?;
        Ok(Self { stop: Mutex::new(Some(stop)), thread: Mutex::new(Some(thread)) })
    }

    /// Ends it. No region is left by then.
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
            let stranger = || serve_stranger(&uffd, fault);
            if let Some(core) = regions.at(fault.address, stranger) {
                serve_fault(&mut carrier, &core, fault);
            }
        }
        if !faults.is_empty() {
            carrier.stock.finish();
        }
    }
}

fn serve_fault(carrier: &mut Carrier, core: &Core, fault: &Fault) {
    let offset = (fault.address - core.mapping.start()) as usize;
    let (chunk, page) = (offset / CHUNK_BYTES, offset % CHUNK_BYTES / core.shop.page_bytes);
    // While the region goes away nobody may use it, and what is left is woken by its end.
    let Turn::Claimed(claim) = core.desk.claim_for_fault(chunk) else { return };
    let toucher = node_of(&core.shop, fault.thread);
    let mut work = Work { carrier, core, claim };
    work.serve(page, toucher);
    core.release(work.claim);
}

/// Brings zeros where nobody has a region. Nobody uses slots by their address but those who look
/// into every mapping, as mlockall(2) and debuggers do. They must not wait for ever, and the next
/// page is what they want next: without it mlockall asks 131,072 times for the first slots alone.
fn serve_stranger(uffd: &Uffd, fault: &Fault) {
    let rest = CHUNK_BYTES as u64 - fault.address % CHUNK_BYTES as u64;
    // As far as pages are missing. If the first is not any more, because a lane took a page out to
    // there, nobody is woken by that.
    if uffd.zero(fault.address, rest).is_err() {
        uffd.wake(fault.address, rest).ok();
    }
}

/// The node that a thread runs on now.
fn node_of(shop: &Shop, tid: u32) -> Option<NodeId> {
    shop.only_node().or_else(|| shop.topology.node_of_cpu(own::cpu_of_thread(tid)?))
}
