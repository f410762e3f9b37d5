//! The cost of a miss: the CPU that missed is delayed. The guest's clock is the host's, so the
//! guest sees the time pass.

use std::hint;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// A CPU is delayed once it owes this much, because reading the clock takes time itself.
const DELAY_NS_MIN: u64 = 2_000;

/// The delay that one CPU owes, in nanoseconds. Only its thread uses it.
#[derive(Debug, Default)]
pub struct PendingDelay(AtomicU64);

impl PendingDelay {
    /// Adds the cost of a miss. If a delay is due, performs it and returns its length.
    pub fn add_miss(&self, delay_ns: u64) -> Option<u64> {
        let owed = self.0.load(Relaxed) + delay_ns;
        if owed < DELAY_NS_MIN {
            self.0.store(owed, Relaxed);
            return None;
        }
        self.0.store(0, Relaxed);
        spin_for(Duration::from_nanos(owed));
        Some(owed)
    }
}

fn spin_for(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: every nanosecond is paid, none twice, and never in less time.
    #[test]
    fn all_is_paid_in_the_end() {
        let debt = PendingDelay::default();
        let start = Instant::now();
        let paid: u64 = (0..100).filter_map(|_| debt.add_miss(150)).sum();
        // 14 misses of 150 ns are 2100; of 100, seven times 14 are paid, and two remain owed.
        assert_eq!(paid, 7 * 14 * 150);
        assert_eq!(debt.0.load(Relaxed), 2 * 150);
        assert!(start.elapsed() >= Duration::from_nanos(paid));
    }
}
