//! Measures how long a thread waits for pages in flight, apart from times when it was merely
//! preempted.

use std::hint::black_box;
use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use nodeward_proof::{StallsReport, TouchTimer, Xorshift64};

use crate::memory::PageWords;

/// The rate of touches.
#[derive(Clone, Copy, Debug)]
pub struct ProbeRate {
    /// The time between two bursts.
    pub interval: Duration,
    /// Pages in a burst.
    pub burst: u32,
}

/// Touches random pages until told to stop, at least one burst.
pub fn keep_touching(
    pages: &[PageWords],
    rhythm: ProbeRate,
    stop: &AtomicBool,
) -> io::Result<StallsReport> {
    // Timers may be late by 50 us otherwise. If this fails, the probe is only slower.
    let _ = std::fs::write("/proc/thread-self/timerslack_ns", "1");
    let mut touches = TouchTimer::of_this_thread()?;
    let mut dice = Xorshift64::new(u64::MAX);
    loop {
        if !rhythm.interval.is_zero() {
            std::thread::sleep(rhythm.interval);
        }
        touches.read_counters()?;
        for _ in 0..rhythm.burst {
            let page = pages[dice.below(pages.len())];
            touches.time_touch(|| {
                black_box(page[0].load(Relaxed));
            })?;
        }
        if stop.load(Relaxed) {
            return Ok(touches.into_stalls().report());
        }
    }
}
