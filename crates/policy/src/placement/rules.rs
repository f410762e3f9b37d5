//! The numbers of the decision: settings and constants, each with the reason for its size.
//! *Assumed* says that nobody has measured it.
//!
//! How often waits double and halve stands in [`damping`](crate::damping).

use crate::damping::with_hysteresis;

/// A whole CPU in millionths.
pub(super) const CPU_PPM: u64 = 1_000_000;
/// A whole in millionths.
pub(super) const WHOLE_PPM: u128 = 1_000_000;
/// The distance of a node to itself in the firmware's units (ACPI SLIT).
pub(super) const DISTANCE_LOCAL: u32 = 10;
/// A huge page of x86-64 and Arm: a move of any of its base pages moves all.
pub(super) const HUGE_BYTES: u64 = 2 << 20;
/// More pages than any machine has, so that sums of wrong input do not overflow.
pub(super) const PAGES_MAX: u64 = 1 << 48;
/// Maximum time between two rounds, whatever the clock says: loads of the last second do not hold
/// for the hours for which a machine was suspended. Assumed: a minute, 60 rounds.
pub(super) const ELAPSED_NS_MAX: u64 = 60_000_000_000;

/// A thread that wants this much of a CPU ran or waited all the time. Assumed: what is missing to
/// a whole CPU is an error of measuring.
pub(super) const WORKS_PPM: u64 = CPU_PPM / 10 * 9;
/// The mean load is that of 30 rounds at most, and constant from then on: half a minute shows a
/// program at its work and at rest.
pub(super) const MEAN_ROUNDS_MAX: u64 = 30;
/// The recent mean forgets a quarter in each round, so that a change shows in a few seconds.
pub(super) const RECENT_ROUNDS: u64 = 4;
/// The deviation is learnt in 16 rounds: more slowly than a load changes, or each change would
/// pass for noise.
pub(super) const DEVIATION_ROUNDS: u64 = 16;
/// The long mean tells whether a load has changed that varies too much for the recent one. Assumed:
/// a minute.
pub(super) const LONG_ROUNDS: u64 = 64;
/// A load has changed when a mean is further from the constant one than a quarter of that. Assumed.
/// The price: loads that change by less, however many of them at once, are not seen.
pub(super) const CHANGED_PART: u64 = 4;
/// And further than 5 % of a CPU. Assumed. It matters to loads of less than a fifth of a CPU.
pub(super) const CHANGED_PPM: u64 = 50_000;
/// And, for the recent mean, than twice the deviation. Where rounds have nothing to do with each
/// other and are normally distributed, the recent mean is off by that once in 20,000: 4.1 times its
/// standard deviation.
pub(super) const CHANGED_DEVIATIONS: u64 = 2;

/// The part of a process's memory that is ignored: a sixteenth is about the error of a residency
/// sample (5 points). A move that finds room for less does not begin, one that moves less was in
/// vain, and a process with no more than that on other nodes is on one node.
pub(super) const SMALL_PART: u64 = 16;
/// Memory is even if no node has this part too much. Assumed: on two nodes an eighth is 6 points of
/// all memory, just more than the error of a residency sample (5 points).
pub(super) const UNEVEN_PART: u64 = 8;
/// A move that has not paid for long must gain this part more than it costs. The mean load, on
/// which the gain depends, is constant until it changes by as much ([`CHANGED_PART`]).
pub(super) const DOUBT_PART: u64 = CHANGED_PART;
/// A move that saves less than this part of a CPU does not pay: that is 1 ms of a round, about the
/// cost of sampling where the memory went.
pub(super) const SMALL_GAIN_PART: u64 = 1_000;
/// Memory that goes back within this time to a node that it left was moved in vain. A move pays
/// within the longest horizon, which is as long.
pub(super) const AWAY_NS: u64 = 60_000_000_000;
/// After a rebalance in vain, the next one waits for this many holds of a home. Otherwise processes
/// that make each other busy would move from node to node whenever a hold ends. Assumed: four, as
/// long as the third hold of a home.
pub(super) const VAIN_HOLDS: u64 = 4;
/// Memory that came home is interleaved again after this many holds of a home at least: the traffic
/// may have gone because memory elsewhere is slower. Assumed: 16, with which traffic that goes and
/// comes changes a home 12 times in 20,000 s at most.
const INTERLEAVE_HOLDS: u64 = 16;
/// No page of a segment moves again for a minute after a move has ended, then for two, and so on:
/// many processes wait for each page, and who uses which part of it is not known. As long as
/// [`AWAY_NS`], for the same reason.
pub(super) const SEGMENT_HOLD_NS: u64 = 60_000_000_000;
/// Maximum expected further run time of a process. Assumed: ten minutes. Four times as much would
/// make the horizon after 4 s a quarter longer (`ln 601 / ln 151 = 1.28`).
pub(super) const LIFE_NS_MAX: u128 = 600_000_000_000;

/// Settings and measured costs. The defaults are for a machine of which nothing was measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// A process with less CPU time than this gets no home, in nanoseconds: most processes end
    /// before a home would pay. 1 s, as in the patches of 2012.
    pub run_ns_min: u64,
    /// The margin by which a level must be exceeded before the rule reacts to it. A tenth, as in
    /// the patches of 2012, where a program stays on its node at exec as long as the node has less
    /// than 1.1 times the load of the least loaded one.
    pub hysteresis_ppm: u32,
    /// A node is not busy while no more than this part of its CPUs is in use, however idle others
    /// are. The kernel itself lets a quarter of a node's CPUs be in use before it balances nodes.
    pub quiet_ppm: u32,
    /// A thread with less load than this is not brought home, in millionths of a CPU: a thread
    /// that sleeps goes nowhere before it wakes.
    pub nudge_ppm_min: u32,
    /// The horizon: a move must save its cost within this time, in nanoseconds, or within the time
    /// for which a process of that age goes on, if that is longer. Assumed: 10 s, for which a
    /// process goes on that ran for 2 s, twice `run_ns_min` (`2 * ln 301 = 11.4`).
    pub horizon_ns: u64,
    /// The longest horizon, unless `horizon_ns` is longer. Assumed: nobody knows for longer than a
    /// minute that loads and homes stay as they are.
    pub horizon_ns_max: u64,
    /// Cost of moving a base page, in nanoseconds; the balancer replaces it by what it measures.
    /// 2 us is between what move_pages(2) takes on a Zen 3 (0.72 us and the copy, which is 1.1 us;
    /// docs/reference/scenarios.md) and on an E5-2650 (2.4 us; docs/reproduce.md).
    pub page_ns: u64,
    /// Fixed cost of a call that moves pages, in nanoseconds: 40 to 100 us on 64 idle CPUs (Zen 3).
    pub call_ns: u64,
    /// Part of its run time for which a thread waits for local memory. Assumed, because it cannot
    /// be measured; the program of 2004 waited for 43 %, by its run times near and far from memory.
    pub memory_bound_ppm: u32,
    /// Time for which a state of a node must last before homes move for it, in nanoseconds.
    /// Assumed: five rounds, after which the recent mean has taken in three quarters of a change
    /// (`1 - 0.75^5`).
    pub debounce_ns: u64,
    /// Time for which a home stays after it moved, in nanoseconds; doubled with each further move.
    /// Longer than `debounce_ns`, after which it shows whether the move helped. Assumed: twice as
    /// long.
    pub home_hold_ns: u64,
    /// Wait after a memory move that brought little, in nanoseconds; doubled each time. Assumed:
    /// two rounds.
    pub memory_wait_ns: u64,
    /// Number of memory moves in a row that brought little, after which memory is given up.
    /// Assumed: five, with waits of a minute in all (2 + 4 + 8 + 16 + 32 s).
    pub memory_tries_max: u32,
    /// The margin: part of a node's memory that moves leave free, beside what the kernel reserves.
    /// More than `short_ppm`, so that moves do not make a node short. Assumed: twice that.
    pub margin_ppm: u32,
    /// A node with less room than this part of its memory is short of it. Assumed: a hundredth; the
    /// kernel's watermarks are a thousandth apart (vm.watermark_scale_factor).
    pub short_ppm: u32,
    /// A node is short, too, if more than this part of its memory was allocated on other nodes for
    /// want of room since the last snapshot. The patches of 2012 moved nothing to a node with any
    /// such page. Assumed: a thousandth, so that single pages do not close a node.
    pub foreign_ppm_max: u32,
    /// No memory moves while tasks stall for want of memory for more than this part of the time.
    /// A tenth, as for the trigger of the page pool (200 ms in 2 s). Assumed.
    pub stalled_ppm_max: u32,
    /// A memory controller that delivers this part of its maximum is saturated. Assumed: it does
    /// not quite reach the maximum that the firmware states.
    pub traffic_ppm_max: u32,
    /// Memory is moved; otherwise only threads are.
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

    /// Returns the wait before memory that came home is interleaved again, in nanoseconds.
    pub(super) fn interleave_hold_ns(&self) -> u64 {
        self.home_hold_ns.saturating_mul(INTERLEAVE_HOLDS)
    }

    /// Returns the traffic below which a memory controller has time for more, or can do the work of
    /// several. Interleaving itself lowers traffic, hence half of what saturates one. Assumed.
    pub(super) fn traffic_ppm_low(&self) -> u32 {
        self.traffic_ppm_max / 2
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
