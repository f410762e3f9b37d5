//! Checks that time advances, and that no CPU works longer than time allows.

use super::{Checker, CheckerResult, ensure};

/// Maximum number of events per CPU and thread before virtual time advances.
const EVENTS_AT_ONCE: u64 = 64;

/// State of the observed clock.
#[derive(Clone, Copy, Debug)]
pub struct ClockCheck {
    /// Maximum number of events at one time.
    events_at_once_max: u64,
    cpus: u64,
    now_ns: u64,
    /// Number of events when time last advanced.
    events: u64,
}

impl ClockCheck {
    /// Creates the clock of a machine with `cpus` CPUs and `tasks` threads.
    pub fn new(cpus: u64, tasks: u64) -> Self {
        Self {
            events_at_once_max: EVENTS_AT_ONCE * (cpus + tasks + 100),
            cpus,
            now_ns: 0,
            events: 0,
        }
    }

    /// Returns the time of the last check, in virtual nanoseconds.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Checks the clock after `events` events, when all CPUs together have been busy for `busy_ns`.
    ///
    /// # Errors
    /// If time went back, stands still, or is too short for the work.
    pub fn check(&mut self, now_ns: u64, events: u64, busy_ns: u64) -> CheckerResult {
        let last_ns = self.now_ns;
        let back = || format!("time runs backwards, from {last_ns} ns to {now_ns} ns");
        ensure(now_ns >= last_ns, Checker::Time, back)?;
        if now_ns > last_ns {
            (self.now_ns, self.events) = (now_ns, events);
        }
        let since = events.saturating_sub(self.events);
        let still = || format!("{since} events, and still it is {now_ns} ns");
        ensure(since <= self.events_at_once_max, Checker::Time, still)?;
        let there = u128::from(self.cpus) * u128::from(now_ns);
        let much = || format!("CPUs worked for {busy_ns} ns of {there} ns");
        ensure(u128::from(busy_ns) <= there, Checker::Time, much)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a clock that advances passes; one that stands still, runs back, or has CPUs that work
    /// twice at a time is detected.
    #[test]
    fn clocks_that_do_not_go_on_are_found() {
        let begun = || {
            let mut clock = ClockCheck::new(2, 1);
            assert_eq!(clock.check(1_000, 10, 2_000), Ok(())); // 2 CPUs for 1000 ns
            clock
        };
        let crowd = 64 * (2 + 1 + 100); // events of one time
        assert_eq!(begun().check(1_000, 10 + crowd, 0), Ok(()));
        assert!(begun().check(1_000, 11 + crowd, 0).unwrap_err().1.contains("still"));
        assert!(begun().check(999, 11, 0).unwrap_err().1.contains("backwards"));
        assert!(begun().check(2_000, 11, 4_001).unwrap_err().1.contains("4001 ns of 4000 ns"));
    }
}
