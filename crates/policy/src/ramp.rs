//! Finds the number of workers that pays off: starts with one, doubles while it helps, and steps
//! back when it does not.
//!
//! The 2017 patches copied every page with eight threads and were six to eight times slower for 4
//! KiB pages (`mt_page_copy`). So more workers must show a gain before they stay.

/// The least gain in speed for which a doubling stays, in percent. Two workers that share a
/// bottleneck gain nothing; noise between two measurements is below this.
const GAIN_PERCENT_MIN: u64 = 15;

/// The search for the number of workers that pays off. Report finished work; read
/// [`Ramp::workers`].
#[derive(Clone, Debug)]
pub struct Ramp {
    workers: u32,
    workers_max: u32,
    settled: bool,
    before: Option<Throughput>,
    bytes: u64,
    units: u32,
    since_ns: u64,
}

#[derive(Clone, Copy, Debug)]
struct Throughput {
    workers: u32,
    bytes_per_s: u64,
}

impl Ramp {
    /// Returns a fixed number of workers.
    pub fn fixed(workers: u32) -> Self {
        Self { settled: true, ..Self::up_to(workers).starting_with(workers) }
    }

    /// Returns a search from one worker to at most `workers_max`.
    pub fn up_to(workers_max: u32) -> Self {
        Self {
            workers: 1,
            workers_max: workers_max.max(1),
            settled: workers_max <= 1,
            before: None,
            bytes: 0,
            units: 0,
            since_ns: 0,
        }
    }

    fn starting_with(self, workers: u32) -> Self {
        Self { workers: workers.max(1), ..self }
    }

    /// Returns the number of workers to use now.
    pub fn workers(&self) -> u32 {
        self.workers
    }

    /// Reports that the work started, or was handed to other workers, at this time.
    pub fn begin(&mut self, now_ns: u64) {
        self.since_ns = now_ns;
    }

    /// Reports that a unit of work was finished.
    pub fn finished(&mut self, now_ns: u64, bytes: u64) {
        if self.settled || bytes == 0 {
            return;
        }
        self.bytes += bytes;
        self.units += 1;
        if self.units >= self.units_to_judge() {
            self.judge(now_ns);
        }
    }

    /// Returns the units to finish before the speed is judged: two for each worker, because fewer
    /// workers may have started the first unit.
    fn units_to_judge(&self) -> u32 {
        if self.workers == 1 { 1 } else { self.workers * 2 }
    }

    fn judge(&mut self, now_ns: u64) {
        let elapsed_ns = u128::from((now_ns - self.since_ns).max(1));
        let bytes_per_s = u128::from(self.bytes) * 1_000_000_000 / elapsed_ns;
        let bytes_per_s = u64::try_from(bytes_per_s).unwrap_or(u64::MAX);
        let now = Throughput { workers: self.workers, bytes_per_s };
        match self.before {
            Some(before) if !pays(before, now) => {
                self.workers = before.workers;
                self.settled = true;
            }
            _ => {
                self.before = Some(now);
                self.settled = self.workers == self.workers_max;
                self.workers = (self.workers * 2).min(self.workers_max);
            }
        }
        self.bytes = 0;
        self.units = 0;
        self.since_ns = now_ns;
    }
}

fn pays(before: Throughput, now: Throughput) -> bool {
    let needed = u128::from(before.bytes_per_s) * u128::from(100 + GAIN_PERCENT_MIN) / 100;
    u128::from(now.bytes_per_s) >= needed
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a search on a machine with a given speed by number of workers, in bytes per unit of 1
    /// s. Returns the number at which it settles.
    fn settle(workers_max: u32, speed: impl Fn(u32) -> u64) -> u32 {
        let mut ramp = Ramp::up_to(workers_max);
        let mut now_ns = 0;
        for _ in 0..200 {
            now_ns += 1_000_000_000 / speed(ramp.workers());
            ramp.finished(now_ns, 1);
        }
        ramp.workers()
    }

    #[test]
    fn workers_are_added_while_they_pay() {
        assert_eq!(settle(8, |workers| u64::from(workers) * 100), 8);
        assert_eq!(settle(6, |workers| u64::from(workers) * 100), 6, "not a power of two");
    }

    #[test]
    fn a_bottleneck_ends_the_search() {
        assert_eq!(settle(16, |workers| u64::from(workers.min(4)) * 100), 4);
        assert_eq!(settle(16, |_| 100), 1, "nothing gained by the second");
        assert_eq!(settle(16, |workers| 1000 / u64::from(workers)), 1, "slower with more");
    }

    #[test]
    fn one_core_and_fixed_numbers_are_not_searched() {
        assert_eq!(settle(1, |_| 100), 1);
        let mut ramp = Ramp::fixed(3);
        ramp.finished(10, 1);
        assert_eq!(ramp.workers(), 3);
    }
}
