//! The housekeeper thread of a pool, which works once in a period and when memory is short.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nodeward_linux::pressure::Pressure;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::pool::Pool;
use crate::error::Result;
use crate::lanes::start_thread;
use crate::stop::{self, Stop};

/// The thread, and the means to end it.
pub struct Housekeeper {
    stop: Stop,
    thread: JoinHandle<()>,
}

impl Housekeeper {
    /// Starts the thread.
    pub fn start(pool: &Arc<Pool>, period: Duration) -> Result<Self> {
        let (stopped, stop) = stop::pipe()?;
        let pressure = Pressure::watch(Path::new("/"))?;
        let pool = Arc::clone(pool);
        let work = move || keep_house(&pool, pressure, period, &stopped);
        Ok(Self { stop, thread: start_thread("nodeward-pool".to_owned(), work)? })
    }

    /// Ends the thread.
    pub fn stop(self) {
        self.stop.tell();
        self.thread.join().expect("a housekeeper that panics aborts the process");
    }
}

fn keep_house(pool: &Pool, mut pressure: Pressure, period: Duration, stopped: &OwnedFd) {
    let mut next = Instant::now() + period;
    while !is_ended(stopped) {
        let left = next.saturating_duration_since(Instant::now());
        match pressure.wait(left, stopped) {
            Ok(true) => _ = pool.relieve(),
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(%error, "memory pressure is not watched any more");
                pressure = Pressure::unknown();
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
fn is_ended(stopped: &OwnedFd) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut end = [PollFd::new(stopped, PollFlags::IN)];
    poll(&mut end, Some(&now)).is_ok_and(|ready| ready > 0)
}
