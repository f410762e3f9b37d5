//! How long single things took, as histograms.

use hdrhistogram::Histogram;

/// The longest time that is told apart, in nanoseconds: a minute.
const LONGEST_NS: u64 = 60_000_000_000;

/// Histograms of times in nanoseconds, each value exact to a hundredth.
#[derive(Clone, Debug, PartialEq)]
pub struct Latencies {
    /// From asking for a page to having it, locks included.
    pub allocation: Histogram<u64>,
    /// From giving a page back to being rid of it, locks included.
    pub freeing: Histogram<u64>,
    /// From a wake-up to the CPU.
    pub wake: Histogram<u64>,
    /// Of a message, there and back.
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
    /// So many pages were allocated in this time each.
    pub fn allocated(&mut self, ns: u64, pages: u64) {
        self.allocation.saturating_record_n(ns, pages);
    }

    /// A task waited so long for a CPU after it was woken.
    pub fn woke(&mut self, ns: u64) {
        self.wake.saturating_record(ns);
    }

    /// A message took so long.
    pub fn returned(&mut self, ns: u64) {
        self.round_trip.saturating_record(ns);
    }

    /// So many were freed.
    pub fn freed(&mut self, ns: u64, pages: u64) {
        self.freeing.saturating_record_n(ns, pages);
    }
}
