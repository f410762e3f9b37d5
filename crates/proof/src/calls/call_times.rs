//! The times that a call took, repeated.

use std::time::Instant;

use serde::Serialize;

/// Bytes of the page whose kernel calls are what a call without pages is compared with.
pub const PAGE_BYTES: usize = 4096;

/// Times of the same call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CallTimes {
    /// Half of the calls took no longer.
    pub median_ns: u64,
    /// 99 of 100 took no longer.
    pub p99_ns: u64,
}

impl CallTimes {
    /// Returns the times of some calls, in nanoseconds.
    pub fn of(mut ns: Vec<u64>) -> Self {
        ns.sort_unstable();
        let at = |percent: usize| ns.get(ns.len() * percent / 100).copied().unwrap_or(0);
        Self { median_ns: at(50), p99_ns: at(99) }
    }
}

/// Returns the time since `since` in nanoseconds.
pub fn elapsed_ns(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: of 1 to 1000 ns, the middle and the 99th percentile are those after 500 and 990.
    #[test]
    fn times_are_ranked() {
        let times = CallTimes::of((1..=1000).rev().collect());
        assert_eq!(times, CallTimes { median_ns: 501, p99_ns: 991 });
        assert_eq!(CallTimes::of(Vec::new()), CallTimes::default());
    }
}
