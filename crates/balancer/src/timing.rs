//! When the next round is due: the interval between rounds, and how many fast rounds are within it.

/// There are fast rounds while more threads than this were away at the last look, in thousandths of
/// those that have a home, and fewer of them when fewer were.
const STRAYED_MILLI: [u64; 2] = [10, 40];
/// Looks in an interval at most.
const PER_INTERVAL_MAX: u64 = 8;

/// When the next round is due, and what that depends on.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// When the next round is due, by the machine's clock, and how long that was to wait for.
    pub due_ns: u64,
    pub interval_ns: u64,
    /// How many times longer than asked for the interval is, so that looking costs no more than it
    /// may.
    pub factor: u64,
    pub fast: FastRounds,
    /// Nothing was left to do after the last round.
    pub is_settled: bool,
    /// When the last decision was made, by the machine's clock.
    pub decided_at_ns: u64,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            due_ns: 0,
            interval_ns: 0,
            factor: 1,
            fast: FastRounds::default(),
            is_settled: false,
            decided_at_ns: 0,
        }
    }
}

/// How many fast rounds there are.
#[derive(Clone, Copy, Debug)]
pub struct FastRounds {
    /// Looks in an interval: a round, and the rest fast rounds.
    per_interval: u64,
    /// The most that strayed before a look since the last round, in thousandths.
    most_milli: u64,
    /// Many did before the last look.
    strayed: bool,
}

impl Default for FastRounds {
    fn default() -> Self {
        Self { per_interval: 1, most_milli: 0, strayed: false }
    }
}

impl FastRounds {
    /// Learns from a look that so many of so many threads had to be brought back.
    pub fn learn(&mut self, strayed: u64, homed: u64, may_look: bool) {
        let milli = strayed * 1000 / homed.max(1);
        self.most_milli = self.most_milli.max(milli);
        self.strayed = milli > STRAYED_MILLI[1];
        if !may_look {
            self.per_interval = (self.per_interval / 2).max(1);
        } else if self.strayed {
            self.per_interval = (self.per_interval * 2).min(PER_INTERVAL_MAX);
        }
    }

    /// A round begins. It was a calm one if hardly any thread strayed in all of it: looks may keep
    /// step with the kernel and see the same thing each second time.
    pub fn begin_round(&mut self) {
        if std::mem::take(&mut self.most_milli) < STRAYED_MILLI[0] {
            self.per_interval = (self.per_interval / 2).max(1);
        }
    }

    /// Whether there are any.
    pub fn are_on(self) -> bool {
        self.per_interval > 1
    }

    /// Whether threads stay where they are, as far as looks tell.
    pub fn is_calm(self) -> bool {
        !self.are_on() && !self.strayed
    }

    /// From one look to the next.
    pub fn part(self, interval_ns: u64) -> u64 {
        interval_ns / self.per_interval
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: as long as more than 4 % stray there are more looks, up to eight in an interval; after
    /// a whole round in which less than 1 % did, or without leave to look, there are fewer again.
    #[test]
    fn the_number_follows_the_strays() {
        let mut fast = FastRounds::default();
        let mut looks = |strayed, may_look| {
            fast.learn(strayed, 1000, may_look);
            fast.per_interval
        };
        assert_eq!(
            [41, 41, 40, 10, 41, 41].map(|strayed| looks(strayed, true)),
            [2, 4, 4, 4, 8, 8]
        );
        assert_eq!([looks(0, true), looks(500, false)], [8, 4]);
        assert_eq!(fast.part(1_000), 250);
        assert!(!fast.is_calm());
        fast.begin_round(); // in which half of all strayed
        assert_eq!(fast.per_interval, 4);
        fast.learn(0, 0, true); // nobody has a home
        fast.learn(9, 1000, true);
        fast.begin_round();
        assert_eq!(fast.per_interval, 2);
        fast.begin_round();
        assert!(!fast.are_on() && fast.is_calm());
        fast.learn(41, 1000, false); // looks cost too much for fast rounds
        assert!(!fast.are_on() && !fast.is_calm());
    }
}
