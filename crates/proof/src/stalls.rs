//! Measures how long a thread waits for pages in flight, apart from the times when it merely lost
//! its CPU to somebody else.

use std::io;
use std::time::Instant;

use hdrhistogram::Histogram;
use nodeward_linux::own::{Interruptions, QueueTime};
use serde::Serialize;

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

/// How long touches took, in nanoseconds.
#[derive(Clone, Debug)]
pub struct Stalls {
    touches: Histogram<u64>,
    waits: Histogram<u64>,
    waits_with_queue: Histogram<u64>,
    preemptions: Histogram<u64>,
    noise: Histogram<u64>,
}

/// No times yet, of up to an hour, to three digits.
pub(crate) fn empty() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST_NS, 3).expect("valid bounds")
}

impl Default for Stalls {
    fn default() -> Self {
        Self {
            touches: empty(),
            waits: empty(),
            waits_with_queue: empty(),
            preemptions: empty(),
            noise: empty(),
        }
    }
}

impl Stalls {
    /// Adds the touches of another thread.
    pub fn add(&mut self, other: &Self) {
        self.touches += &other.touches;
        self.waits += &other.waits;
        self.waits_with_queue += &other.waits_with_queue;
        self.preemptions += &other.preemptions;
        self.noise += &other.noise;
    }

    /// Sums them up.
    pub fn report(&self) -> StallsReport {
        StallsReport {
            touches: Times::of(&self.touches),
            waits: Times::of(&self.waits),
            waits_with_queue: Times::of(&self.waits_with_queue),
            preemptions: Times::of(&self.preemptions),
            noise: Times::of(&self.noise),
        }
    }

    /// A slow touch, of which the thread stood in line for a CPU for a part.
    fn slow(&mut self, ns: u64, queued_ns: u64, cause: Cause) {
        match cause {
            Cause::Wait => {
                self.waits.saturating_record(ns.saturating_sub(queued_ns));
                self.waits_with_queue.saturating_record(ns);
            }
            Cause::Preemption => self.preemptions.saturating_record(ns),
            Cause::Noise => self.noise.saturating_record(ns),
        }
    }
}

/// What touches took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StallsReport {
    /// All of them.
    pub touches: Times,
    /// Those where the thread faulted or slept: how long the page was in flight.
    pub waits: Times,
    /// The same touches with the time that the thread, its page back, stood in line for a CPU.
    pub waits_with_queue: Times,
    /// Those where the thread lost its CPU without a fault.
    pub preemptions: Times,
    /// Other slow ones: interrupts, a hypervisor that took the CPU away.
    pub noise: Times,
}

/// A distribution of times, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Times {
    /// How many.
    pub count: u64,
    /// The median.
    pub p50_ns: u64,
    /// All but one in a hundred took no longer.
    pub p99_ns: u64,
    /// All but one in a thousand took no longer.
    pub p999_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

impl Times {
    pub(crate) fn of(histogram: &Histogram<u64>) -> Self {
        Self {
            count: histogram.len(),
            p50_ns: histogram.value_at_quantile(0.5),
            p99_ns: histogram.value_at_quantile(0.99),
            p999_ns: histogram.value_at_quantile(0.999),
            max_ns: histogram.max(),
        }
    }
}

/// The touches of one thread. Measuring one neither allocates nor locks.
#[derive(Debug)]
pub struct Touches {
    /// As they were before the next touch.
    before: Counters,
    /// Where the scheduler does not count it, waits hold the time in line.
    queue: Option<QueueTime>,
    stalls: Stalls,
}

/// What the kernel counts of the thread.
#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    interruptions: Interruptions,
    queued_ns: u64,
}

impl Touches {
    /// Of the calling thread.
    ///
    /// # Errors
    /// If the kernel does not tell what the thread has been through.
    pub fn of_this_thread() -> io::Result<Self> {
        let queue = QueueTime::of_this_thread().ok();
        let mut touches = Self { before: Counters::default(), queue, stalls: Stalls::default() };
        touches.look()?;
        Ok(touches)
    }

    /// Reads the counters, so that what happened since the last touch is not put down to the next.
    ///
    /// # Errors
    /// If the kernel does not tell.
    pub fn look(&mut self) -> io::Result<()> {
        let queued = self.queue.as_ref().map(QueueTime::total_ns).transpose()?;
        let interruptions = Interruptions::of_this_thread()?;
        self.before = Counters { interruptions, queued_ns: queued.unwrap_or(0) };
        Ok(())
    }

    /// Measures a touch. The counters are read after slow ones only: they cost more than a touch.
    ///
    /// # Errors
    /// If the kernel does not tell what a slow one was due to.
    pub fn time(&mut self, touch: impl FnOnce()) -> io::Result<()> {
        let start = Instant::now();
        touch();
        let ns = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.stalls.touches.saturating_record(ns);
        if ns > SLOW_NS {
            let before = self.before;
            self.look()?;
            let queued_ns = self.before.queued_ns - before.queued_ns;
            let cause = cause(before.interruptions, self.before.interruptions);
            self.stalls.slow(ns, queued_ns, cause);
        }
        Ok(())
    }

    /// Like [`Touches::time`] where `watched`; otherwise the touch is not counted.
    pub(crate) fn time_if(&mut self, watched: bool, touch: impl FnOnce()) -> io::Result<()> {
        match watched {
            true => self.time(touch),
            false => {
                touch();
                Ok(())
            }
        }
    }

    /// What was measured.
    pub fn into_stalls(self) -> Stalls {
        self.stalls
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: times of any length are kept, within the three digits of the histogram.
    #[test]
    fn long_times_are_kept() {
        let mut stalls = Stalls::default();
        stalls.slow(5_000_000_000, 0, Cause::Wait);
        stalls.slow(u64::MAX, 0, Cause::Noise);
        let report = stalls.report();
        assert!((4_990_000_000..=5_010_000_000).contains(&report.waits.max_ns));
        assert!(report.noise.max_ns >= LONGEST_NS);
    }

    /// Goal: time in line for a CPU is no wait for a page.
    #[test]
    fn waits_are_told_with_and_without_the_queue() {
        let mut stalls = Stalls::default();
        stalls.slow(1000, 400, Cause::Wait);
        let report = stalls.report();
        assert_eq!((report.waits.max_ns, report.waits_with_queue.max_ns), (600, 1000));
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

    /// Goal: no times at all are zeros, and the quantiles are those of the numbers that went in,
    /// of several threads as of one.
    #[test]
    fn times_are_summed_up() {
        assert_eq!(Stalls::default().report().touches, Times::default());
        let (mut one, mut other) = (Stalls::default(), Stalls::default());
        (1..=500).for_each(|ns| one.touches.saturating_record(ns));
        (501..=1000).for_each(|ns| other.touches.saturating_record(ns));
        one.add(&other);
        let times = one.report().touches;
        assert_eq!((times.count, times.p50_ns, times.p99_ns, times.max_ns), (1000, 500, 990, 1000));
    }
}
