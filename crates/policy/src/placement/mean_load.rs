//! The load by which homes are judged: a mean over some rounds, which stays constant until the load
//! has really changed.
//!
//! Loads differ from second to second. If decisions used the present value, a move would look
//! worthwhile one day by chance, and a balancer that looks each second would see that day. A
//! constant mean does not vary.

use serde::{Deserialize, Serialize};

use super::rules::{
    CHANGED_DEVIATIONS, CHANGED_PART, CHANGED_PPM, DEVIATION_ROUNDS, LONG_ROUNDS, MEAN_ROUNDS_MAX,
    RECENT_ROUNDS,
};

/// A load, and for how long it has been so. Numbers are in millionths of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct MeanLoad {
    ppm: u64,
    /// The mean of the last rounds.
    recent_ppm: u64,
    /// The mean distance of a round's load from that.
    deviation_ppm: u64,
    /// The mean of many rounds.
    long_ppm: u64,
    rounds: u64,
}

impl MeanLoad {
    /// Creates the mean of a load without history.
    pub(super) fn new(ppm: u64) -> Self {
        Self { ppm, recent_ppm: ppm, deviation_ppm: 0, long_ppm: ppm, rounds: RECENT_ROUNDS }
    }

    /// Returns the mean.
    pub(super) fn ppm(self) -> u64 {
        self.ppm
    }

    /// Enters the load of a round.
    pub(super) fn take(&mut self, ppm: u64) {
        let off_ppm = ppm.abs_diff(self.recent_ppm);
        self.deviation_ppm = mean(self.deviation_ppm, DEVIATION_ROUNDS, off_ppm);
        self.recent_ppm = mean(self.recent_ppm, RECENT_ROUNDS, ppm);
        self.long_ppm = mean(self.long_ppm, LONG_ROUNDS, ppm);
        if let Some(now_ppm) = self.changed_ppm() {
            let Self { recent_ppm, deviation_ppm, .. } = *self;
            *self = Self { recent_ppm, deviation_ppm, ..Self::new(now_ppm) };
        } else if self.rounds < MEAN_ROUNDS_MAX {
            self.rounds += 1;
            self.ppm = mean(self.ppm, self.rounds, ppm);
        }
    }

    /// Returns the new load if it has changed.
    fn changed_ppm(&self) -> Option<u64> {
        let least_ppm = (self.ppm / CHANGED_PART).max(CHANGED_PPM);
        let by_chance_ppm = self.deviation_ppm.saturating_mul(CHANGED_DEVIATIONS);
        let means = [(self.recent_ppm, least_ppm.max(by_chance_ppm)), (self.long_ppm, least_ppm)];
        means.into_iter().find(|&(ppm, most)| self.ppm.abs_diff(ppm) > most).map(|(ppm, _)| ppm)
    }
}

/// Returns the mean over so many rounds, the last of which had this load.
fn mean(before_ppm: u64, rounds: u64, ppm: u64) -> u64 {
    ((rounds - 1) * before_ppm + ppm).div_ceil(rounds)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CPU: u64 = 1_000_000;

    /// Goal: what goes up and down by a fifth is its mean, within three hundredths after half a
    /// minute (the first round was off by 20, and counts for 4 of 30). That stands for as long as
    /// nothing comes that is more than a quarter off.
    #[test]
    fn what_wavers_is_its_mean() {
        let mut load = MeanLoad::new(1_200_000);
        let wave = |round: u64| if round.is_multiple_of(2) { 800_000 } else { 1_200_000 };
        (0..30).for_each(|round| load.take(wave(round)));
        assert!(load.ppm().abs_diff(CPU) < 30_000, "{load:?}");
        let stands = load.ppm();
        (0..3600).for_each(|_| load.take(stands * 5 / 4));
        assert_eq!(load.ppm(), stands);
        (0..20).for_each(|_| load.take(stands * 13 / 10));
        assert!(load.ppm() > stands * 5 / 4, "{load:?}");
    }

    /// Goal: what works and rests in turn, each for two rounds, has a load of a half, though the
    /// last rounds say 36 to 64 %: 1 / (1 + 9 / 16) at most.
    #[test]
    fn what_works_in_turns_has_a_mean() {
        let mut load = MeanLoad::new(CPU / 2);
        let mut seen = [u64::MAX, 0];
        for round in 0..600 {
            load.take(if round % 4 < 2 { CPU } else { 0 });
            if round >= 60 {
                seen = [seen[0].min(load.ppm()), seen[1].max(load.ppm())];
            }
        }
        assert_eq!(seen[0], seen[1]);
        assert!(seen[0].abs_diff(CPU / 2) < CPU / 20, "{load:?}");
    }

    /// Goal: what works in turns and gets four times as much to do, half of it in bursts as before,
    /// is known to have more within two minutes, as is what gets a quarter of it.
    #[test]
    fn what_works_in_turns_may_change() {
        let turns = |load: &mut MeanLoad, ppm: u64, rounds: u64| {
            (0..rounds).for_each(|round| load.take(if round % 4 < 2 { ppm } else { 0 }));
        };
        let mut load = MeanLoad::new(2 * CPU);
        for (cpus, rounds) in [(4, 600), (16, 120), (4, 120)] {
            turns(&mut load, cpus * CPU, rounds);
            let expected = cpus * CPU / 2;
            assert!(load.ppm().abs_diff(expected) <= expected / 3, "{cpus}: {load:?}");
        }
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

    /// Goal: one round tells little of how much a load varies: a sixteenth of what it was off by.
    #[test]
    fn one_round_is_no_deviation() {
        let mut load = MeanLoad::new(CPU);
        load.take(2 * CPU);
        assert_eq!(load.deviation_ppm, CPU / 16);
    }

    /// Goal: a tenth of a CPU that becomes 4 % of a CPU more has not changed, though that is more
    /// than a quarter of it; one that becomes 6 % more has.
    #[test]
    fn what_is_small_changes_by_five_percent_of_a_cpu() {
        let mut load = MeanLoad::new(100_000);
        let mut after = |ppm| {
            (0..100).for_each(|_| load.take(ppm));
            load.ppm()
        };
        assert_eq!([after(100_000), after(140_000)], [100_000; 2]);
        assert!(after(160_000) > 150_000);
    }

    /// Goal: what sleeps comes to nothing, when it is sure that it does not work in turns.
    #[test]
    fn what_sleeps_has_none() {
        let mut load = MeanLoad::new(CPU);
        (0..40).for_each(|_| load.take(0));
        assert!(load.ppm() < CHANGED_PPM, "{load:?}");
    }
}
