//! The value of sampled time: the time that a move saves to threads that were sampled.
//!
//! A thread alternates between computing for a time `c` and a miss of latency `L`. Ticks find it in
//! both, so a time `t` at an access holds `t / (c + L)` misses. With the page on another node each
//! of them takes `L'` instead of `L`, which saves `t * (L - L') / (c + L)`. With `c = 0` that is
//! the part `1 - L' / L` of the time. Division by `c + L` takes back that slow accesses are found
//! more often.

use nodeward_model::{NodeId, Nodemask};

use super::costs::MissCosts;
use super::page_room::PageRoom;

/// A move must save this within the horizon, in nanoseconds: to move memory, and to look where it
/// is afterwards, takes the balancer about as long.
pub(super) const SAVED_NS_MIN: u64 = 5_000_000;

const WHOLE_PPM: u32 = 1_000_000;

/// Limits and costs of a choice by sampled time.
#[derive(Clone, Debug)]
pub struct TimeRules {
    /// The costs of the machine.
    pub costs: MissCosts,
    /// The nodes that pages may go to.
    pub destinations: Nodemask,
    /// The part of its run time that a thread waits for memory that is local, in ppm.
    pub memory_bound_ppm: u32,
    /// The time within which a move must pay, in nanoseconds.
    pub horizon_ns: u64,
    /// Limits on the base pages to move.
    pub room: PageRoom,
}

impl TimeRules {
    /// Returns the destination that is nearest to a user, the lowest of equals; `None` without
    /// destinations.
    pub(super) fn nearest(&self, user: NodeId) -> Option<NodeId> {
        self.destinations.iter().min_by_key(|&to| (self.costs.latency(user, to), to))
    }

    /// Returns what is saved of a time that was spent at pages of one node if they are on another,
    /// in nanoseconds; negative if time is lost.
    pub(super) fn saved_ns(&self, ns: u128, user: NodeId, (on, to): (NodeId, NodeId)) -> i128 {
        let [now, then] = [on, to].map(|memory| i128::from(self.costs.latency(user, memory)));
        let turn = now + self.compute_time();
        if turn == 0 { 0 } else { ns.cast_signed().saturating_mul(now - then) / turn }
    }

    /// Returns what a sample of an access counts, so that fast accesses count as often as they
    /// happen: in millionths, it is inverse to the time from one access to the next.
    pub(super) fn access_weight(&self, user: NodeId, on: NodeId) -> u128 {
        let turn = i128::from(self.costs.latency(user, on)) + self.compute_time();
        1_000_000_000 / turn.unsigned_abs().max(1)
    }

    /// Extrapolates from a time to the horizon.
    pub(super) fn within_horizon(&self, saved_ns: i128, time_ns: u64) -> i128 {
        saved_ns.saturating_mul(i128::from(self.horizon_ns)) / i128::from(time_ns.max(1))
    }

    /// Returns the time between two misses, in tenths of nanoseconds: what is left of the run time
    /// where a local miss takes its part.
    fn compute_time(&self) -> i128 {
        let bound_ppm = i128::from(self.memory_bound_ppm.clamp(1, WHOLE_PPM));
        let local = i128::from(self.costs.local_ns) * 10;
        local * (i128::from(WHOLE_PPM) - bound_ppm) / bound_ppm
    }
}
