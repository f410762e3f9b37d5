//! The time at which a move is to end, with everything that it looks at.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

/// Maximum time that is kept for the account and the last look, in nanoseconds: as much as these
/// may take after any stop.
const REST_NS_MAX: u64 = 1_000_000_000;

/// A deadline. Clones are the same one.
#[derive(Clone)]
pub struct MoveDeadline {
    now_ns: Arc<dyn Fn() -> u64 + Send + Sync>,
    /// No page is moved after this.
    stop_ns: u64,
    /// Nothing is looked at after this.
    end_ns: u64,
}

impl MoveDeadline {
    /// Creates the deadline that is `time_ns` nanoseconds from now, by a clock in nanoseconds.
    pub fn after(time_ns: u64, clock: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        let end_ns = clock().saturating_add(time_ns);
        let rest_ns = (time_ns / 2).min(REST_NS_MAX);
        Self { now_ns: Arc::new(clock), stop_ns: end_ns - rest_ns, end_ns }
    }

    /// Returns the deadline in real time.
    pub fn in_real_time(time_ns: u64) -> Self {
        let began = Instant::now();
        let now_ns = move || u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Self::after(time_ns, now_ns)
    }

    /// Returns whether it is too late to move pages.
    pub(crate) fn stops_moves(&self) -> bool {
        (self.now_ns)() >= self.stop_ns
    }

    /// Returns whether it is too late for anything.
    pub(crate) fn is_over(&self) -> bool {
        (self.now_ns)() >= self.end_ns
    }
}

impl fmt::Debug for MoveDeadline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { now_ns: _, stop_ns, end_ns } = self;
        f.debug_struct("MoveDeadline").field("stop_ns", stop_ns).field("end_ns", end_ns).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    use super::*;

    /// Goal: the last second is kept for looking, and half of a time that is shorter than two.
    #[test]
    fn some_time_is_left_to_look() {
        for (time_ns, moving_ns) in [(10_000_000_000, 9_000_000_000), (1_000, 500), (1, 1)] {
            let now = Arc::new(AtomicU64::new(7));
            let clock = Arc::clone(&now);
            let deadline = MoveDeadline::after(time_ns, move || clock.load(Relaxed));
            let at = |ns| {
                now.store(7 + ns, Relaxed);
                (deadline.stops_moves(), deadline.is_over())
            };
            assert_eq!(at(moving_ns - 1), (false, false));
            assert!(at(moving_ns).0);
            assert!(!at(time_ns - 1).1);
            assert_eq!(at(time_ns), (true, true));
        }
    }

    /// Goal: a time without end is no error.
    #[test]
    fn the_longest_time() {
        let deadline = MoveDeadline::after(u64::MAX, || 5);
        assert!(!deadline.stops_moves() && !deadline.is_over());
    }
}
