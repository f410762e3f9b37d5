//! How many cores other programs leave to workers.

use nodeward_machine::Machine;
use nodeward_model::CpuId;

/// The shortest time that tells how busy CPUs are: the kernel counts in ticks of 10 ms.
const SAMPLE_NS_MIN: u64 = 50_000_000;
/// A core is needed by others from this part of its time on, in thousandths.
const NEEDED_MILLI: u64 = 250;

/// The cores that workers may use, and what others took of them lately.
#[derive(Debug)]
pub struct IdleCores {
    /// One CPU of each core.
    cpus: Vec<CpuId>,
    since: Option<Times>,
    /// The mean number of CPUs on which others ran, in thousandths.
    others_milli: Option<u64>,
}

/// Times so far, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Times {
    now: u64,
    busy: u64,
    own: u64,
}

impl IdleCores {
    /// Begins to count.
    pub fn among(machine: &dyn Machine, cpus: &[CpuId]) -> Self {
        let cpus = cpus.to_vec();
        Self { since: Times::read(machine, &cpus), cpus, others_milli: None }
    }

    /// Counts again if there is something to tell.
    pub fn sample(&mut self, machine: &dyn Machine) {
        let Some(since) = self.since else { return };
        if machine.now_ns().saturating_sub(since.now) < SAMPLE_NS_MIN {
            return;
        }
        if let Some(now) = Times::read(machine, &self.cpus) {
            self.others_milli = Some(now.others_milli(since));
            self.since = Some(now);
        }
    }

    /// Returns the number of workers for which there is a core. One, as long as nothing is known;
    /// all cores on a machine that does not tell.
    pub fn count(&self) -> u32 {
        let cores = self.cpus.len() as u64;
        let others = match (self.since, self.others_milli) {
            (None, _) => 0,
            (Some(_), None) => cores,
            (Some(_), Some(milli)) => (milli + 1000 - NEEDED_MILLI) / 1000,
        };
        u32::try_from(cores.saturating_sub(others).max(1)).unwrap_or(u32::MAX)
    }

    /// Returns whether nobody else needs a core.
    pub fn are_all(&self) -> bool {
        self.count() as usize == self.cpus.len()
    }
}

impl Times {
    fn read(machine: &dyn Machine, cpus: &[CpuId]) -> Option<Self> {
        let (now, own) = (machine.now_ns(), machine.own_cpu_time_ns());
        Some(Self { now, busy: machine.busy_ns(cpus)?, own })
    }

    /// Returns the mean number of CPUs on which others ran since then, in thousandths.
    fn others_milli(self, since: Self) -> u64 {
        let own = self.own.saturating_sub(since.own);
        let others = self.busy.saturating_sub(since.busy).saturating_sub(own);
        others.saturating_mul(1000) / self.now.saturating_sub(since.now).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn idle(cores: u32, others_milli: Option<u64>) -> u32 {
        let since = Some(Times { now: 0, busy: 0, own: 0 });
        IdleCores { cpus: (0..cores).map(CpuId).collect(), since, others_milli }.count()
    }

    /// Goal: of four cores others need as many as they run on for a quarter of the time, and one
    /// is left in any case.
    #[test]
    fn others_come_first() {
        assert_eq!(idle(4, None), 1, "nothing is known");
        let count = |milli| idle(4, Some(milli));
        assert_eq!([0, 249, 250, 1249, 1250, 3000, 9000].map(count), [4, 4, 3, 3, 2, 1, 1]);
    }

    /// Goal: what the caller itself ran is not that of others. Two CPUs were busy for 150 ms of
    /// 100, of which 100 are ours: half a CPU.
    #[test]
    fn own_time_is_not_that_of_others() {
        let since = Times { now: 1_000, busy: 7_000, own: 500 };
        let now = Times { now: 101_000, busy: 157_000, own: 100_500 };
        assert_eq!(now.others_milli(since), 500);
        assert_eq!(Times { busy: 50_000, ..now }.others_milli(since), 0);
    }
}
