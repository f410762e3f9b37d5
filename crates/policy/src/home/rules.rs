//! What is assumed about costs, and how eager the balancer is.

/// What was interleaved is so again after so many waits of a home at least.
const OPEN_WAITS: u64 = 16;

/// Settings and measured costs. The defaults are for a machine of which nothing was measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Entities with less CPU time than this are not looked at, in nanoseconds.
    pub run_ns_min: u64,
    /// How much more than its share a node may have before it counts as busy.
    pub hysteresis_ppm: u32,
    /// How much of a node's CPUs may be in use, however idle others are. The kernel itself lets a
    /// quarter of a node's CPUs be in use before it evens nodes out.
    pub quiet_ppm: u32,
    /// A thread with less load than this is not brought home, in millionths of a CPU: one that
    /// sleeps goes nowhere before it wakes.
    pub nudge_ppm_min: u32,
    /// A move must save its cost within this time, in nanoseconds, or within the one for which what
    /// has run for so long goes on in the mean.
    pub horizon_ns: u64,
    /// But within no longer than this, unless `horizon_ns` is longer.
    pub horizon_ns_max: u64,
    /// What a base page costs to move, in nanoseconds: measured speed and stall.
    pub page_ns: u64,
    /// What a call that moves pages costs before the first one, in nanoseconds.
    pub call_ns: u64,
    /// What part of its run time a thread waits for memory that is near: nobody measures it.
    pub memory_ppm: u32,
    /// How long a node must be busier than it may be before homes are moved from it.
    pub patience_ns: u64,
    /// After a home was moved it stays so long; the second time twice as long, and so on.
    pub home_wait_ns: u64,
    /// After a move of memory that brought little, the next waits so long, then twice as long.
    pub memory_wait_ns: u64,
    /// After so many that brought little there are no more until something changes.
    pub memory_tries_max: u32,
    /// What part of a node's memory stays free beside what the kernel keeps.
    pub margin_ppm: u32,
    /// A node that can take less than this part of its memory is short of it.
    pub short_ppm: u32,
    /// So is one for which more than this part of its memory had to come from elsewhere since the
    /// snapshot before.
    pub foreign_ppm_max: u32,
    /// No memory is moved while tasks stand still for want of it for more of the time than this.
    pub stalled_ppm_max: u32,
    /// A memory controller that delivers so much of what it can is a bottleneck.
    pub traffic_ppm_max: u32,
    /// Whether memory is moved at all; else only threads are.
    pub move_memory: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            run_ns_min: 1_000_000_000,
            hysteresis_ppm: 100_000,
            quiet_ppm: 250_000,
            nudge_ppm_min: 10_000,
            horizon_ns: 10_000_000_000,
            horizon_ns_max: 60_000_000_000,
            page_ns: 2_000,
            call_ns: 100_000,
            memory_ppm: 300_000,
            patience_ns: 5_000_000_000,
            home_wait_ns: 10_000_000_000,
            memory_wait_ns: 2_000_000_000,
            memory_tries_max: 5,
            margin_ppm: 20_000,
            short_ppm: 10_000,
            foreign_ppm_max: 1_000,
            stalled_ppm_max: 100_000,
            traffic_ppm_max: 900_000,
            move_memory: true,
        }
    }
}

impl Rules {
    /// What it costs to move pages, in nanoseconds.
    pub fn move_ns(&self, pages: u64) -> u64 {
        self.call_ns.saturating_add(pages.saturating_mul(self.page_ns))
    }

    /// How long what was interleaved and came back stays so: the traffic may have gone because
    /// memory elsewhere is slower.
    pub(super) fn open_wait_ns(&self) -> u64 {
        self.home_wait_ns.saturating_mul(OPEN_WAITS)
    }

    /// Whether memory is so short on the machine that none is moved now.
    pub fn forbid_moves(&self, stalled_ppm: Option<u32>) -> bool {
        stalled_ppm.is_some_and(|ppm| ppm > self.stalled_ppm_max)
    }
}
