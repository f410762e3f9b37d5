//! Measures how long a thread waits for pages in flight, apart from the times when it merely lost
//! its CPU to somebody else.

use std::hint::black_box;
use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use nodeward_linux::own::{Interruptions, QueueTime};

use crate::memory::Page;
use crate::pattern::Dice;
use crate::report::{ProbeReport, Times};

/// A touch that takes no longer than this met neither a page in flight nor another thread: a fault
/// with two switches of threads takes longer.
const SLOW_NS: u64 = 5_000;

/// Longer times count as this one.
const LONGEST_NS: u64 = 3_600_000_000_000;

/// Why a touch was slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// The thread faulted or slept: the page was in flight.
    Wait,
    /// The thread lost its CPU and did not fault.
    Preemption,
    /// Neither: interrupts, a hypervisor that took the CPU away, cache misses.
    Noise,
}

fn cause(before: Interruptions, after: Interruptions) -> Cause {
    if after.waits > before.waits || after.minor_faults > before.minor_faults {
        Cause::Wait
    } else if after.preemptions > before.preemptions {
        Cause::Preemption
    } else {
        Cause::Noise
    }
}

struct Probe {
    /// As they were before the next touch.
    before: Counters,
    queue: QueueTime,
    touches: Histogram<u64>,
    waits: Histogram<u64>,
    waits_with_queue: Histogram<u64>,
    preemptions: Histogram<u64>,
    noise: Histogram<u64>,
}

/// What the kernel counts of the thread.
#[derive(Clone, Copy, Default)]
struct Counters {
    interruptions: Interruptions,
    queued_ns: u64,
}

impl Probe {
    /// Of the calling thread.
    fn new() -> io::Result<Self> {
        let empty = || Histogram::new_with_bounds(1, LONGEST_NS, 3).expect("valid bounds");
        Ok(Self {
            before: Counters::default(),
            queue: QueueTime::of_this_thread()?,
            touches: empty(),
            waits: empty(),
            waits_with_queue: empty(),
            preemptions: empty(),
            noise: empty(),
        })
    }

    /// The counters are read only at the start and after slow touches: they cost more than a touch.
    fn burst<'a>(&mut self, mut pages: impl Iterator<Item = Page<'a>>) -> io::Result<()> {
        self.before = self.counters()?;
        pages.try_for_each(|page| self.touch(page))
    }

    fn counters(&self) -> io::Result<Counters> {
        let interruptions = Interruptions::of_this_thread()?;
        Ok(Counters { interruptions, queued_ns: self.queue.total_ns()? })
    }

    fn touch(&mut self, page: Page) -> io::Result<()> {
        let start = Instant::now();
        black_box(page[0].load(Relaxed));
        let ns = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.touches.saturating_record(ns);
        if ns > SLOW_NS {
            let after = self.counters()?;
            let before = std::mem::replace(&mut self.before, after);
            match cause(before.interruptions, after.interruptions) {
                Cause::Wait => {
                    self.waits
                        .saturating_record(ns.saturating_sub(after.queued_ns - before.queued_ns));
                    self.waits_with_queue.saturating_record(ns);
                }
                Cause::Preemption => self.preemptions.saturating_record(ns),
                Cause::Noise => self.noise.saturating_record(ns),
            }
        }
        Ok(())
    }

    fn report(&self) -> ProbeReport {
        ProbeReport {
            touches: Times::of(&self.touches),
            waits: Times::of(&self.waits),
            waits_with_queue: Times::of(&self.waits_with_queue),
            preemptions: Times::of(&self.preemptions),
            noise: Times::of(&self.noise),
        }
    }
}

/// How often pages are touched.
#[derive(Clone, Copy, Debug)]
pub struct Rhythm {
    /// The time between two bursts.
    pub rest: Duration,
    /// Pages in a burst.
    pub burst: u32,
}

/// Touches random pages until told to stop.
pub fn keep_touching(pages: &[Page], rhythm: Rhythm, stop: &AtomicBool) -> io::Result<ProbeReport> {
    // Timers may be late by 50 us otherwise; where that cannot be changed the probe is only slower.
    let _ = std::fs::write("/proc/thread-self/timerslack_ns", "1");
    let mut probe = Probe::new()?;
    let mut dice = Dice::new(u64::MAX);
    while !stop.load(Relaxed) {
        if !rhythm.rest.is_zero() {
            std::thread::sleep(rhythm.rest);
        }
        probe.burst((0..rhythm.burst).map(|_| pages[dice.below(pages.len())]))?;
    }
    Ok(probe.report())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: times of any length are kept, within the three digits of the histogram.
    #[test]
    fn long_times_are_kept() {
        let mut probe = Probe::new().unwrap();
        probe.waits.saturating_record(5_000_000_000);
        probe.noise.saturating_record(u64::MAX);
        let report = probe.report();
        assert!((4_990_000_000..=5_010_000_000).contains(&report.waits.max_ns));
        assert!(report.noise.max_ns >= LONGEST_NS);
    }

    /// Goal: a fault or a voluntary switch outweighs losing the CPU, which outweighs nothing.
    #[test]
    fn causes_are_told_apart() {
        let none = Interruptions::default();
        let of = |waits, preemptions, minor_faults| {
            cause(none, Interruptions { waits, preemptions, minor_faults })
        };
        assert_eq!(of(1, 1, 0), Cause::Wait);
        assert_eq!(of(0, 1, 1), Cause::Wait);
        assert_eq!(of(0, 2, 0), Cause::Preemption);
        assert_eq!(of(0, 0, 0), Cause::Noise);
    }
}
