//! Work that rests in every other interval.

use std::thread;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The intervals in which a thread may work.
#[derive(Clone, Copy, Debug)]
pub struct DutySchedule {
    half_period_ns: u64,
    second_half: bool,
}

impl DutySchedule {
    /// Work in every second interval of this length (not zero) of the machine's clock; if `odd`, in
    /// the other ones.
    pub fn new(stretch_ns: u64, odd: bool) -> Self {
        Self { half_period_ns: stretch_ns, second_half: odd }
    }

    /// Sleeps until the thread may work.
    pub fn wait_for_turn(self) {
        let rest = self.rest_ns(now_ns());
        if rest > 0 {
            thread::sleep(Duration::from_nanos(rest));
        }
    }

    /// Returns the time until the thread may work; zero if it may now.
    fn rest_ns(self, now_ns: u64) -> u64 {
        let stretch = now_ns / self.half_period_ns;
        let ours = (stretch % 2 == 1) == self.second_half;
        if ours { 0 } else { (stretch + 1) * self.half_period_ns - now_ns }
    }
}

fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: at any time exactly one side works, and the other rests until the interval ends.
    #[test]
    fn sides_take_turns() {
        let [even, odd] = [false, true].map(|odd| DutySchedule::new(10, odd));
        assert_eq!([0, 9, 10, 13, 20].map(|now| even.rest_ns(now)), [0, 0, 10, 7, 0]);
        assert_eq!([0, 9, 10, 13, 20].map(|now| odd.rest_ns(now)), [10, 1, 0, 0, 10]);
    }
}
