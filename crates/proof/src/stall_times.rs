//! Measures how long a thread waits for pages in flight, apart from times when it was merely
//! preempted.

use std::io;
use std::time::Instant;

use hdrhistogram::Histogram;
use nodeward_linux::own_process::{Interruptions, RunDelay};
use serde::Serialize;

/// A touch that takes no longer than this met neither a page in flight nor another thread: a fault
/// with two context switches takes longer.
const SLOW_NS: u64 = 5_000;

/// Longer times are recorded as this one.
const TIME_NS_MAX: u64 = 3_600_000_000_000;

/// Distributions of the durations of touches, in nanoseconds.
#[derive(Clone, Debug)]
pub struct StallTimes {
    touches: Histogram<u64>,
    waits: Histogram<u64>,
    waits_with_queue: Histogram<u64>,
    preemptions: Histogram<u64>,
    noise: Histogram<u64>,
}

/// An empty histogram for times up to an hour, with three significant digits.
pub(crate) fn empty_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, TIME_NS_MAX, 3).expect("valid bounds")
}

impl Default for StallTimes {
    fn default() -> Self {
        Self {
            touches: empty_histogram(),
            waits: empty_histogram(),
            waits_with_queue: empty_histogram(),
            preemptions: empty_histogram(),
            noise: empty_histogram(),
        }
    }
}

impl StallTimes {
    /// Adds the touches of another thread.
    pub fn add(&mut self, other: &Self) {
        self.touches += &other.touches;
        self.waits += &other.waits;
        self.waits_with_queue += &other.waits_with_queue;
        self.preemptions += &other.preemptions;
        self.noise += &other.noise;
    }

    /// Returns the quantiles.
    pub fn report(&self) -> StallsReport {
        StallsReport {
            touches: TimeQuantiles::of(&self.touches),
            waits: TimeQuantiles::of(&self.waits),
            waits_with_queue: TimeQuantiles::of(&self.waits_with_queue),
            preemptions: TimeQuantiles::of(&self.preemptions),
            noise: TimeQuantiles::of(&self.noise),
        }
    }

    /// Records a slow touch, of whose duration the thread spent `queued_ns` waiting for a CPU.
    fn record_slow(&mut self, ns: u64, queued_ns: u64, cause: StallCause) {
        match cause {
            StallCause::Wait => {
                self.waits.saturating_record(ns.saturating_sub(queued_ns));
                self.waits_with_queue.saturating_record(ns);
            }
            StallCause::Preemption => self.preemptions.saturating_record(ns),
            StallCause::Noise => self.noise.saturating_record(ns),
        }
    }
}

/// Quantiles of the durations of touches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StallsReport {
    /// All touches.
    pub touches: TimeQuantiles,
    /// Touches where the thread faulted or slept: how long the page was in flight.
    pub waits: TimeQuantiles,
    /// The same touches, including the time that the thread then waited in the run queue.
    pub waits_with_queue: TimeQuantiles,
    /// Touches where the thread was preempted without a fault.
    pub preemptions: TimeQuantiles,
    /// Other slow touches: interrupts, a hypervisor that took the CPU away.
    pub noise: TimeQuantiles,
}

/// A distribution of times, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TimeQuantiles {
    /// Number of times.
    pub count: u64,
    /// The median.
    pub p50_ns: u64,
    /// The 99th percentile.
    pub p99_ns: u64,
    /// The 99.9th percentile.
    pub p999_ns: u64,
    /// The maximum.
    pub max_ns: u64,
}

impl TimeQuantiles {
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
pub struct TouchTimer {
    /// The counters before the next touch.
    before: ThreadCounters,
    /// Time in the run queue. `None` where the scheduler does not count it: then waits include it.
    queue: Option<RunDelay>,
    stalls: StallTimes,
}

/// The cause of a slow touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StallCause {
    /// The thread faulted or slept: the page was in flight.
    Wait,
    /// The thread was preempted and did not fault.
    Preemption,
    /// Neither: interrupts, a hypervisor that took the CPU away, cache misses.
    Noise,
}

fn stall_cause(before: Interruptions, after: Interruptions) -> StallCause {
    if after.waits > before.waits || after.minor_faults > before.minor_faults {
        StallCause::Wait
    } else if after.preemptions > before.preemptions {
        StallCause::Preemption
    } else {
        StallCause::Noise
    }
}

/// The kernel's counters of the thread.
#[derive(Clone, Copy, Debug, Default)]
struct ThreadCounters {
    interruptions: Interruptions,
    queued_ns: u64,
}

impl TouchTimer {
    /// Starts to measure touches of the calling thread.
    ///
    /// # Errors
    /// If the kernel does not provide the counters.
    pub fn of_this_thread() -> io::Result<Self> {
        let queue = RunDelay::of_this_thread().ok();
        let mut touches =
            Self { before: ThreadCounters::default(), queue, stalls: StallTimes::default() };
        touches.read_counters()?;
        Ok(touches)
    }

    /// Reads the counters, so that events since the last touch are not attributed to the next one.
    ///
    /// # Errors
    /// If the kernel does not provide them.
    pub fn read_counters(&mut self) -> io::Result<()> {
        let queued = self.queue.as_ref().map(RunDelay::total_ns).transpose()?;
        let interruptions = Interruptions::of_this_thread()?;
        self.before = ThreadCounters { interruptions, queued_ns: queued.unwrap_or(0) };
        Ok(())
    }

    /// Measures a touch. Counters are read only after slow ones: reading costs more than a touch.
    ///
    /// # Errors
    /// If the counters for a slow one cannot be read.
    pub fn time_touch(&mut self, touch: impl FnOnce()) -> io::Result<()> {
        let start = Instant::now();
        touch();
        let ns = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.stalls.touches.saturating_record(ns);
        if ns > SLOW_NS {
            let before = self.before;
            self.read_counters()?;
            let queued_ns = self.before.queued_ns - before.queued_ns;
            let cause = stall_cause(before.interruptions, self.before.interruptions);
            self.stalls.record_slow(ns, queued_ns, cause);
        }
        Ok(())
    }

    /// Like [`TouchTimer::time_touch`] if `watched`; otherwise the touch is not counted.
    pub(crate) fn time_touch_if(&mut self, watched: bool, touch: impl FnOnce()) -> io::Result<()> {
        match watched {
            true => self.time_touch(touch),
            false => {
                touch();
                Ok(())
            }
        }
    }

    /// Returns the distributions.
    pub fn into_stalls(self) -> StallTimes {
        self.stalls
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: times of any length are recorded, within the three digits of the histogram.
    #[test]
    fn long_times_are_kept() {
        let mut stalls = StallTimes::default();
        stalls.record_slow(5_000_000_000, 0, StallCause::Wait);
        stalls.record_slow(u64::MAX, 0, StallCause::Noise);
        let report = stalls.report();
        assert!((4_990_000_000..=5_010_000_000).contains(&report.waits.max_ns));
        assert!(report.noise.max_ns >= TIME_NS_MAX);
    }

    /// Goal: time in the run queue is not counted as a wait for a page.
    #[test]
    fn waits_are_told_with_and_without_the_queue() {
        let mut stalls = StallTimes::default();
        stalls.record_slow(1000, 400, StallCause::Wait);
        let report = stalls.report();
        assert_eq!((report.waits.max_ns, report.waits_with_queue.max_ns), (600, 1000));
    }

    /// Goal: a fault or a voluntary switch takes precedence over preemption, and that over noise.
    #[test]
    fn causes_are_told_apart() {
        let none = Interruptions::default();
        let of = |waits, preemptions, minor_faults| {
            stall_cause(none, Interruptions { waits, preemptions, minor_faults })
        };
        assert_eq!(of(1, 1, 0), StallCause::Wait);
        assert_eq!(of(0, 1, 1), StallCause::Wait);
        assert_eq!(of(0, 2, 0), StallCause::Preemption);
        assert_eq!(of(0, 0, 0), StallCause::Noise);
    }

    /// Goal: without times all is zero, and the quantiles are those of the recorded numbers, from
    /// several threads as from one.
    #[test]
    fn times_are_summed_up() {
        assert_eq!(StallTimes::default().report().touches, TimeQuantiles::default());
        let (mut one, mut other) = (StallTimes::default(), StallTimes::default());
        (1..=500).for_each(|ns| one.touches.saturating_record(ns));
        (501..=1000).for_each(|ns| other.touches.saturating_record(ns));
        one.add(&other);
        let times = one.report().touches;
        assert_eq!((times.count, times.p50_ns, times.p99_ns, times.max_ns), (1000, 500, 990, 1000));
    }
}
