//! The numbers of the rule: settings and constants, each with its reason.

use crate::damping::with_hysteresis;

/// A whole CPU in millionths.
pub(super) const CPU_PPM: u64 = 1_000_000;
/// A whole in millionths.
pub(super) const WHOLE_PPM: u128 = 1_000_000;

/// Maximum time between two rounds, whatever the clock says: loads of the last second do not hold
/// for the hours for which a machine was suspended.
pub(super) const ELAPSED_NS_MAX: u64 = 60_000_000_000;
/// The part of a process's memory that is ignored: a sixteenth is about the error of a residency
/// sample (5 points). A move that finds room for less does not begin, one that moves less was in
/// vain, and a process with no more than that on other nodes is on one node.
pub(super) const SMALL_PART: u64 = 16;
/// A move that has not paid for long must gain this part more than it costs. The mean load, on
/// which the gain depends, is constant until it changes by as much.
pub(super) const DOUBT_PART: u64 = 4;
/// A move that saves less than this part of a CPU does not pay: that is 1 ms of a round, about the
/// cost of sampling where the memory went.
pub(super) const SMALL_GAIN_PART: u64 = 1_000;
/// Memory that goes back within this time to a node that it left was moved in vain. A move pays
/// within the longest horizon, which is as long.
pub(super) const AWAY_NS: u64 = 60_000_000_000;
/// After a rebalance in vain, the next one waits for so many holds of a home. Otherwise processes
/// that make each other busy would move from node to node whenever a hold ends.
pub(super) const VAIN_HOLDS: u64 = 4;
/// Maximum expected further run time of a process. Longer ones were not measured.
pub(super) const LIFE_NS_MAX: u128 = 600_000_000_000;
/// The distance of a node to itself in the firmware's units (ACPI SLIT).
pub(super) const DISTANCE_LOCAL: u32 = 10;
/// A huge page of x86-64 and Arm: a move of any of its base pages moves all.
pub(super) const HUGE_BYTES: u64 = 2 << 20;
/// More pages than any machine has, so that sums of wrong input do not overflow.
pub(super) const PAGES_MAX: u64 = 1 << 48;

/// Settings and measured costs. The defaults are for a machine of which nothing was measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// A process with less CPU time than this gets no home, in nanoseconds: most processes end
    /// before a home would pay.
    pub run_ns_min: u64,
    /// The margin by which a level must be exceeded before the rule reacts to it.
    pub hysteresis_ppm: u32,
    /// A node is not busy while no more than this part of its CPUs is in use, however idle others
    /// are. The kernel itself lets a quarter of a node's CPUs be in use before it balances nodes.
    pub quiet_ppm: u32,
    /// A thread with less load than this is not brought home, in millionths of a CPU: a thread
    /// that sleeps goes nowhere before it wakes.
    pub nudge_ppm_min: u32,
    /// The horizon: a move must save its cost within this time, in nanoseconds, or within the time
    /// for which a process of that age goes on, if that is longer.
    pub horizon_ns: u64,
    /// The longest horizon, unless `horizon_ns` is longer.
    pub horizon_ns_max: u64,
    /// Cost of moving a base page, in nanoseconds: measured speed and stall.
    pub page_ns: u64,
    /// Fixed cost of a call that moves pages, in nanoseconds.
    pub call_ns: u64,
    /// Part of its run time for which a thread waits for local memory. It is assumed, because it
    /// cannot be measured.
    pub memory_bound_ppm: u32,
    /// Time for which a state of a node must last before homes move for it, in nanoseconds.
    pub debounce_ns: u64,
    /// Time for which a home stays after it moved, in nanoseconds; doubled with each further move.
    pub home_hold_ns: u64,
    /// Wait after a memory move that brought little, in nanoseconds; doubled each time.
    pub memory_wait_ns: u64,
    /// Number of memory moves in a row that brought little, after which memory is given up.
    pub memory_tries_max: u32,
    /// The margin: part of a node's memory that moves leave free, beside what the kernel reserves.
    pub margin_ppm: u32,
    /// A node with less room than this part of its memory is short of it.
    pub short_ppm: u32,
    /// A node is short, too, if more than this part of its memory was allocated on other nodes for
    /// want of room since the last snapshot.
    pub foreign_ppm_max: u32,
    /// No memory moves while tasks stall for want of memory for more than this part of the time.
    pub stalled_ppm_max: u32,
    /// A memory controller that delivers this part of its maximum is saturated.
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
            memory_bound_ppm: 300_000,
            debounce_ns: 5_000_000_000,
            home_hold_ns: 10_000_000_000,
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
    /// Returns the cost of moving pages, in nanoseconds.
    pub fn move_ns(&self, pages: u64) -> u64 {
        self.call_ns.saturating_add(pages.saturating_mul(self.page_ns))
    }

    /// Returns whether memory is so short on the machine that none may move now.
    pub fn forbid_moves(&self, stalled_ppm: Option<u32>) -> bool {
        stalled_ppm.is_some_and(|ppm| ppm > self.stalled_ppm_max)
    }

    /// Returns a level plus the margin by which it must be exceeded.
    pub(super) fn with_hysteresis(&self, level: u64) -> u64 {
        with_hysteresis(level, self.hysteresis_ppm)
    }

    /// Returns a level with the margin added twice: 1.21 times the level.
    pub(super) fn with_hysteresis_twice(&self, level: u64) -> u64 {
        self.with_hysteresis(self.with_hysteresis(level))
    }
}
