//! When a source clears the soft-dirty bits of a process, and for how long it may hold it up.

use std::time::Duration;

/// The time that a process may stand still while its bits are cleared, in nanoseconds.
pub const CLEAR_STALL_NS_MAX: u64 = 20_000_000;
/// The time for each of its page table entries, in nanoseconds: 81 in the lab (Linux 6.12,
/// emulated).
pub const CLEAR_ENTRY_NS: u64 = 100;
/// Rounds before a pause. One round shows each page that is written in it; three tell a page that
/// one thread writes from one that several do.
const ROUNDS: u32 = 3;
/// The time of a round.
const ROUND: Duration = Duration::from_secs(1);
/// The first pause and the longest; each is twice as long as the one before.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(64);

/// The times at which bits are cleared: three rounds, a pause, three rounds, a longer pause.
#[derive(Clone, Copy, Debug)]
pub struct ClearSchedule {
    next: Duration,
    rounds_left: u32,
    pause: Duration,
}

impl ClearSchedule {
    /// Returns a schedule whose first round begins at once. Times are those since any fixed one.
    pub fn new(now: Duration) -> Self {
        Self { next: now, rounds_left: ROUNDS, pause: PAUSE_MIN }
    }

    /// Returns true if a round begins now, and plans the next.
    pub fn begins_round(&mut self, now: Duration) -> bool {
        if now < self.next {
            return false;
        }
        self.next = now + ROUND;
        self.rounds_left -= 1;
        if self.rounds_left == 0 {
            self.rounds_left = ROUNDS;
            self.next += self.pause;
            self.pause = (self.pause * 2).min(PAUSE_MAX);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: rounds of a second come in threes, with pauses of 1, 2, 4 to 64 s between them: the
    /// second three begin at 0 + 3 + 1 = 4 s, the third at 4 + 3 + 2 = 9 s.
    #[test]
    fn rounds_come_in_threes_with_growing_pauses() {
        let second = Duration::from_secs(1);
        let mut schedule = ClearSchedule::new(Duration::ZERO);
        let begun: Vec<_> = (0..300).filter(|&now| schedule.begins_round(second * now)).collect();
        assert_eq!(begun[..9], [0, 1, 2, 4, 5, 6, 9, 10, 11]);
        let starts: Vec<_> = begun.chunks(3).map(|three| three[0]).collect();
        // 3 s and the pause: 16 + 4 = 3 + 4 after 9, then 8, 16, 32, 64, 64.
        assert_eq!(starts, [0, 4, 9, 16, 27, 46, 81, 148, 215, 282]);
    }

    /// Goal: a caller that comes late gets one round, not all that it missed.
    #[test]
    fn missed_rounds_are_not_made_up_for() {
        let mut schedule = ClearSchedule::new(Duration::ZERO);
        let (late, same) = (Duration::from_secs(100), Duration::from_millis(100_999));
        assert!(schedule.begins_round(late) && !schedule.begins_round(same));
        assert!(schedule.begins_round(Duration::from_secs(101)));
    }
}
