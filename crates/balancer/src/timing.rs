//! Sets the interval between rounds, and the number of fast rounds within it.

/// Shares of threads with a home that were away at a look, in thousandths: above the second, there
/// are more fast rounds; below the first for a whole round, there are fewer.
const STRAYED_MILLI: [u64; 2] = [10, 40];
/// Maximum number of looks in an interval.
const PER_INTERVAL_MAX: u64 = 8;

/// The time of the next round, and the state from which it is set.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// Time of the next round by the machine's clock, and the wait until it.
    pub due_ns: u64,
    pub interval_ns: u64,
    /// Factor by which the interval is longer than the settings say, so that looks stay within the
    /// CPU budget.
    pub factor: u64,
    pub fast: FastRounds,
    /// True if no move was left to make after the last round.
    pub is_settled: bool,
    /// Time of the last decision, by the machine's clock.
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

/// The number of fast rounds.
#[derive(Clone, Copy, Debug)]
pub struct FastRounds {
    /// Number of looks in an interval: one round and the fast rounds.
    per_interval: u64,
    /// The largest share of strayed threads at a look since the last round, in thousandths.
    most_milli: u64,
    /// True if many threads had strayed at the last look.
    strayed: bool,
}

impl Default for FastRounds {
    fn default() -> Self {
        Self { per_interval: 1, most_milli: 0, strayed: false }
    }
}

impl FastRounds {
    /// Learns from a look at which `strayed` of `homed` threads had to be brought back. `may_look`
    /// is false if the CPU budget is used up.
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

    /// Begins a round. Fast rounds become fewer only if hardly any thread strayed during a whole
    /// round: single looks may be in step with the kernel's own moves and see the same state each
    /// second time.
    pub fn begin_round(&mut self) {
        if std::mem::take(&mut self.most_milli) < STRAYED_MILLI[0] {
            self.per_interval = (self.per_interval / 2).max(1);
        }
    }

    /// Returns whether there are fast rounds.
    pub fn are_on(self) -> bool {
        self.per_interval > 1
    }

    /// Returns whether threads stay at home, as far as looks show.
    pub fn is_calm(self) -> bool {
        !self.are_on() && !self.strayed
    }

    /// Returns the time from one look to the next.
    pub fn part(self, interval_ns: u64) -> u64 {
        interval_ns / self.per_interval
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: as long as more than 4 % stray, there are more looks, up to eight in an interval.
    /// After a whole round in which less than 1 % did, or without CPU budget, there are fewer
    /// again.
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
