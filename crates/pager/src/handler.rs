//! The thread behind page faults: it brings what was left out, or zeros where nothing ever was.
//!
//! Of pages in flight it does nothing: who carries them wakes those who wait.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, RwLock};
use std::thread::JoinHandle;

use nodeward_linux::own;
use nodeward_model::NodeId;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::pipe::{PipeFlags, pipe_with};

use crate::CHUNK_BYTES;
use crate::carrier::Carrier;
use crate::chunk::Work;
use crate::core::Core;
use crate::desk::Turn;
use crate::error::{Result, system};
use crate::lanes::start_thread;
use crate::shop::Shop;
use crate::sync::{Mutex, lock};
use crate::sys::Fault;

/// The regions of a pager, by their first address.
#[derive(Default)]
pub struct Regions(RwLock<BTreeMap<u64, Arc<Core>>>);

impl Regions {
    /// Enters a region.
    pub fn add(&self, core: &Arc<Core>) {
        let mut regions = self.0.write().expect("not poisoned");
        regions.insert(core.mapping.start(), Arc::clone(core));
    }

    /// Strikes a region out.
    pub fn remove(&self, core: &Core) {
        self.0.write().expect("not poisoned").remove(&core.mapping.start());
    }

    /// All of them.
    pub fn all(&self) -> Vec<Arc<Core>> {
        self.0.read().expect("not poisoned").values().cloned().collect()
    }

    fn at(&self, address: u64) -> Option<Arc<Core>> {
        let regions = self.0.read().expect("not poisoned");
        let (start, core) = regions.range(..=address).next_back()?;
        (address - start < core.mapping.bytes() as u64).then(|| Arc::clone(core))
    }
}

/// The thread, and the pipe whose end tells it to go.
pub struct Handler {
    stop: Mutex<Option<OwnedFd>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Handler {
    /// Starts it. `lane` is a number that no lane has.
    pub fn start(shop: &Arc<Shop>, regions: &Arc<Regions>, lane: usize) -> Result<Self> {
        let (stopped, stop) =
            pipe_with(PipeFlags::CLOEXEC).map_err(|error| system("pipe")(error.into()))?;
        let carrier = Carrier::new(Arc::clone(shop), lane);
        let regions = Arc::clone(regions);
        let thread = start_thread("nodeward-faults".to_owned(), move || {
            serve(carrier, &regions, &stopped).expect("userfaultfd can be read");
        })?;
        Ok(Self { stop: Mutex::new(Some(stop)), thread: Mutex::new(Some(thread)) })
    }

    /// Ends it. No region is left by then.
    pub fn stop(&self) {
        lock(&self.stop).take();
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
            if let Some(core) = regions.at(fault.address) {
                serve_fault(&mut carrier, &core, fault);
            }
        }
        if !faults.is_empty() {
            carrier.finish();
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

/// The node that a thread runs on now.
fn node_of(shop: &Shop, tid: u32) -> Option<NodeId> {
    shop.only_node().or_else(|| shop.topology.node_of_cpu(own::cpu_of_thread(tid)?))
}
