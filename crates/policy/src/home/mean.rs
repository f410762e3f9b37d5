//! The load of an entity, as homes are judged by: the mean of all rounds for which it has stayed
//! about the same. It is never quite what it was the second before: by the last seconds alone a
//! move looks well one day by chance, and whoever looks each second sees that day.

use serde::{Deserialize, Serialize};

/// Of the last rounds' mean a quarter is forgotten each round.
const SOON_ROUNDS: u64 = 4;
/// The mean is never of more rounds than this, in which it follows what changes slowly.
const ROUNDS_MAX: u64 = 60;
/// When the last rounds are further from the mean than a part of it, and than so much of a CPU,
/// the load has changed.
const CHANGED_PART: u64 = 4;
const CHANGED_PPM: u64 = 50_000;

/// A load and for how long it has been so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct MeanLoad {
    ppm: u64,
    /// The mean of the last rounds.
    soon_ppm: u64,
    rounds: u64,
}

impl MeanLoad {
    /// A load of which nothing else is known.
    pub(super) fn new(ppm: u64) -> Self {
        Self { ppm, soon_ppm: ppm, rounds: SOON_ROUNDS }
    }

    /// In millionths of a CPU.
    pub(super) fn ppm(&self) -> u64 {
        self.ppm
    }

    /// Takes in the load of a round.
    pub(super) fn take(&mut self, ppm: u64) {
        self.soon_ppm = mean(self.soon_ppm, SOON_ROUNDS, ppm);
        if self.has_changed() {
            *self = Self::new(self.soon_ppm);
        } else {
            self.rounds = (self.rounds + 1).min(ROUNDS_MAX);
            self.ppm = mean(self.ppm, self.rounds, ppm);
        }
    }

    fn has_changed(&self) -> bool {
        self.ppm.abs_diff(self.soon_ppm) > (self.ppm / CHANGED_PART).max(CHANGED_PPM)
    }
}

/// The mean of so many rounds, the last of which had this load.
fn mean(before_ppm: u64, rounds: u64, ppm: u64) -> u64 {
    ((rounds - 1) * before_ppm + ppm).div_ceil(rounds)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CPU: u64 = 1_000_000;

    /// Goal: what goes up and down by a fifth is its mean, ever more exactly: after a minute within
    /// two hundredths.
    #[test]
    fn what_wavers_is_its_mean() {
        let mut load = MeanLoad::new(1_200_000);
        for round in 0..60 {
            load.take(if round % 2 == 0 { 800_000 } else { 1_200_000 });
        }
        assert!(load.ppm().abs_diff(CPU) < 20_000, "{load:?}");
    }

    /// Goal: what is twice as much is known in two rounds to be more, also after an hour: a quarter
    /// of the change shows in the first round, 7 of 16 in the second.
    #[test]
    fn what_changes_is_seen_at_once() {
        let mut load = MeanLoad::new(CPU);
        (0..3600).for_each(|_| load.take(CPU));
        (0..2).for_each(|_| load.take(2 * CPU));
        assert_eq!(load.ppm(), 1_437_500);
        (0..20).for_each(|_| load.take(2 * CPU));
        assert!(load.ppm() > 1_900_000, "{load:?}");
    }

    /// Goal: what sleeps comes to nothing.
    #[test]
    fn what_sleeps_has_none() {
        let mut load = MeanLoad::new(CPU);
        (0..30).for_each(|_| load.take(0));
        assert!(load.ppm() < CHANGED_PPM, "{load:?}");
    }
}
