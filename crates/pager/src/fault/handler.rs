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
use std::sync::Arc;
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags, poll};

use super::allocation_thread::AllocationThread;
use super::server::FaultServer;
use crate::chunk::CHUNK_BYTES;
use crate::context::PagerContext;
use crate::error::Result;
use crate::pager_thread::{self, StopSignal, spawn_pager_thread};
use crate::region::RegionTable;
use crate::sync::{Mutex, lock};
use crate::sys::{Uffd, UffdFault};

/// The thread, and the means to end it.
pub struct FaultHandler {
    /// Ends when this is dropped, because then no sender is left.
    allocator: AllocationThread,
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
        let server = FaultServer::new(context, lane, allocator.client(context));
        let regions = Arc::clone(regions);
        let thread = spawn_pager_thread("nodeward-faults".to_owned(), move || {
            serve_faults(server, &regions, &stopped).expect("userfaultfd can be read");
        })?;
        Ok(Self { allocator, stop: Mutex::new(Some(stop)), thread: Mutex::new(Some(thread)) })
    }

    /// Makes the allocation thread look at the room on nodes soon. Does not wait for it.
    pub fn request_look(&self) {
        self.allocator.request_look();
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
    mut server: FaultServer,
    regions: &RegionTable,
    stopped: &OwnedFd,
) -> io::Result<()> {
    let uffd = Arc::clone(server.uffd());
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
            regions.with_region_at(fault.address, |region| match region {
                Some(region) => server.serve(region, fault),
                None => serve_unmanaged_address(&uffd, fault),
            });
        }
        server.return_destination();
    }
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
