//! The housekeeper thread of a pool, which works once in a period and when memory is short.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use nodeward_linux::pressure::PressureMonitor;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::pool::Pool;
use crate::error::Result;
use crate::pager_thread::{self, StopSignal, spawn_pager_thread};
use crate::sync::{Mutex, lock};

/// The means to end the thread.
pub struct Housekeeper {
    stop: StopSignal,
    /// The pool, until the thread takes it.
    waiting: Arc<Mutex<Option<Arc<Pool>>>>,
    /// Hung up by the thread when it has let go of the pool.
    works: Mutex<Receiver<()>>,
}

impl Housekeeper {
    /// Starts the thread. It begins to watch memory pressure itself: the kernel starts and ends a
    /// monitor only when all CPUs know, which takes up to some 20 ms, and nobody waits for that.
    pub fn start(pool: &Arc<Pool>, period: Duration) -> Result<Self> {
        let (stopped, stop) = pager_thread::stop_pipe()?;
        let waiting = Arc::new(Mutex::new(Some(Arc::clone(pool))));
        let (working, works) = mpsc::channel();
        let handed = Arc::clone(&waiting);
        spawn_pager_thread("nodeward-pool".to_owned(), move || {
            let mut pressure = watch_pressure();
            let pool = lock(&handed).take();
            pool.inspect(|pool| run(pool, &mut pressure, period, &stopped));
            drop(working);
        })?;
        Ok(Self { stop, waiting, works: Mutex::new(works) })
    }

    /// Ends the work. The thread has let go of the pool when this returns, and ends some
    /// milliseconds later.
    pub fn stop(self) {
        self.stop.send();
        if lock(&self.waiting).take().is_none() {
            // Nothing is ever sent.
            lock(&self.works).recv().ok();
        }
    }
}

fn watch_pressure() -> PressureMonitor {
    PressureMonitor::watch(Path::new("/")).unwrap_or_else(|error| {
        tracing::warn!(%error, "memory pressure is not watched");
        PressureMonitor::unknown()
    })
}

fn run(pool: &Pool, pressure: &mut PressureMonitor, period: Duration, stopped: &OwnedFd) {
    let mut next = Instant::now() + period;
    while !is_stopped(stopped) {
        let left = next.saturating_duration_since(Instant::now());
        match pressure.wait(left, stopped) {
            Ok(true) => _ = pool.shrink_for_pressure(),
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(%error, "memory pressure is not watched any more");
                *pressure = PressureMonitor::unknown();
            }
        }
        if Instant::now() >= next {
            pool.tick();
            // After a long time without a CPU, one tick is enough.
            next = (next + period).max(Instant::now());
        }
    }
}

/// Returns whether something was written to the pipe.
fn is_stopped(stopped: &OwnedFd) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut end = [PollFd::new(stopped, PollFlags::IN)];
    poll(&mut end, Some(&now)).is_ok_and(|ready| ready > 0)
}
