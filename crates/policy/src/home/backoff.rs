//! How long something waits before it is done again: twice as long each time, until it was calm
//! for long. So whatever the load does, the number of times grows with the logarithm of time.

use serde::{Deserialize, Serialize};

/// Calm lasts so many times as long as the wait before it counts for one time less. Whatever comes
/// back as soon as it may finds no calm.
const CALM_FACTOR: u64 = 4;
/// Longer waits than 2^20 of the first are no longer told apart.
pub(super) const TIMES_MAX: u32 = 20;

/// A wait that doubles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Backoff {
    left_ns: u64,
    calm_ns: u64,
    times: u32,
}

impl Backoff {
    /// Whether it must still wait.
    pub(super) fn waits(&self) -> bool {
        self.left_ns > 0
    }

    /// How long it must still wait, in nanoseconds.
    pub(super) fn left_ns(&self) -> u64 {
        self.left_ns
    }

    /// It is done: the next one waits, `base_ns` doubled as often as it was done before, but not
    /// more than `times_max` times.
    pub(super) fn again(&mut self, base_ns: u64, times_max: u32) {
        self.left_ns = wait_ns(base_ns, self.times);
        self.times = (self.times + 1).min(times_max).min(TIMES_MAX);
        self.calm_ns = 0;
    }

    /// Time passes.
    pub(super) fn pass(&mut self, ns: u64, base_ns: u64) {
        let beyond = ns.saturating_sub(self.left_ns);
        self.left_ns = self.left_ns.saturating_sub(ns);
        self.calm_ns = self.calm_ns.saturating_add(beyond);
        if self.times > 0
            && self.calm_ns >= wait_ns(base_ns, self.times).saturating_mul(CALM_FACTOR)
        {
            self.times -= 1;
            self.calm_ns = 0;
        }
    }
}

fn wait_ns(base_ns: u64, times: u32) -> u64 {
    base_ns.max(1).saturating_mul(1 << times)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: each wait is twice the one before, and ends on time.
    #[test]
    fn waits_double() {
        let mut backoff = Backoff::default();
        for wait in [10, 20, 40, 80] {
            assert!(!backoff.waits());
            backoff.again(10, TIMES_MAX);
            backoff.pass(wait - 1, 10);
            assert!(backoff.waits(), "{wait}");
            backoff.pass(1, 10);
        }
        assert_eq!(backoff.times, 4);
    }

    /// Goal: calm is forgiven step by step, but only after several times the wait.
    #[test]
    fn calm_takes_a_step_back() {
        let mut backoff = Backoff::default();
        backoff.again(10, TIMES_MAX);
        backoff.again(10, TIMES_MAX);
        backoff.pass(20, 10); // the wait itself is no calm
        backoff.pass(159, 10); // 4 times the next wait of 40
        assert_eq!(backoff.times, 2);
        backoff.pass(1, 10);
        assert_eq!(backoff.times, 1);
        backoff.pass(80, 10);
        assert_eq!(backoff.times, 0);
        backoff.pass(u64::MAX, 10);
        backoff.pass(u64::MAX, 10);
        assert_eq!(backoff, Backoff { left_ns: 0, calm_ns: u64::MAX, times: 0 });
    }

    /// Goal: something that comes back at once, for ever, is done about log2(time / base) times.
    #[test]
    fn what_never_rests_is_done_ever_more_rarely() {
        let mut backoff = Backoff::default();
        let mut done = 0;
        for _ in 0..100_000 {
            if !backoff.waits() {
                backoff.again(10, TIMES_MAX);
                done += 1;
            }
            backoff.pass(1, 10);
        }
        assert_eq!(done, 14, "10 * (2^13 - 1) = 81,910 < 100,000 < 163,830");
    }
}
