//! Histograms of latencies.

use hdrhistogram::Histogram;

/// The longest time that is recorded, in nanoseconds: a minute.
const LONGEST_NS: u64 = 60_000_000_000;

/// Histograms of times in nanoseconds, accurate to two significant digits.
#[derive(Clone, Debug, PartialEq)]
pub struct Latencies {
    /// Time to allocate a page, locks included.
    pub allocation: Histogram<u64>,
    /// Time to free a page, locks included.
    pub freeing: Histogram<u64>,
    /// Time from a task's wake-up until it runs.
    pub wake: Histogram<u64>,
    /// Time of a message, there and back.
    pub round_trip: Histogram<u64>,
}

impl Default for Latencies {
    fn default() -> Self {
        let histogram = Histogram::new_with_max(LONGEST_NS, 2).expect("two digits");
        Self {
            allocation: histogram.clone(),
            freeing: histogram.clone(),
            wake: histogram.clone(),
            round_trip: histogram,
        }
    }
}

impl Latencies {
    /// Records the allocation of pages that took `ns` each.
    pub fn record_allocation(&mut self, ns: u64, pages: u64) {
        self.allocation.saturating_record_n(ns, pages);
    }

    /// Records the time that a task waited for a CPU after it was woken.
    pub fn record_wake(&mut self, ns: u64) {
        self.wake.saturating_record(ns);
    }

    /// Records the round-trip time of a message.
    pub fn record_round_trip(&mut self, ns: u64) {
        self.round_trip.saturating_record(ns);
    }

    /// Records the freeing of pages that took `ns` each.
    pub fn record_free(&mut self, ns: u64, pages: u64) {
        self.freeing.saturating_record_n(ns, pages);
    }
}

impl Latencies {
    /// Returns all histograms, by their names in reports.
    pub fn named(&self) -> [(&'static str, &Histogram<u64>); 4] {
        let Self { allocation, freeing, wake, round_trip } = self;
        [
            ("allocation", allocation),
            ("freeing", freeing),
            ("wake-up", wake),
            ("round-trip", round_trip),
        ]
    }
}
