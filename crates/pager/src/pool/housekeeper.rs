//! The housekeeper thread of a pool, which works once in a period and when memory is short.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nodeward_linux::pressure::PressureMonitor;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::pool::Pool;
use crate::error::Result;
use crate::pager_thread::{self, StopSignal, spawn_pager_thread};

/// The thread, and the means to end it.
pub struct Housekeeper {
    stop: StopSignal,
    thread: JoinHandle<()>,
}

impl Housekeeper {
    /// Starts the thread.
    pub fn start(pool: &Arc<Pool>, period: Duration) -> Result<Self> {
        let (stopped, stop) = pager_thread::stop_pipe()?;
        let pressure = PressureMonitor::watch(Path::new("/"))?;
        let pool = Arc::clone(pool);
        let work = move || run(&pool, pressure, period, &stopped);
        Ok(Self { stop, thread: spawn_pager_thread("nodeward-pool".to_owned(), work)? })
    }

    /// Ends the thread.
    pub fn stop(self) {
        self.stop.send();
        self.thread.join().expect("a housekeeper that panics aborts the process");
    }
}

fn run(pool: &Pool, mut pressure: PressureMonitor, period: Duration, stopped: &OwnedFd) {
    let mut next = Instant::now() + period;
    while !is_stopped(stopped) {
        let left = next.saturating_duration_since(Instant::now());
        match pressure.wait(left, stopped) {
            Ok(true) => _ = pool.shrink_for_pressure(),
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(%error, "memory pressure is not watched any more");
                pressure = PressureMonitor::unknown();
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
