//! Finds the number of workers that pays off: starts with one, doubles while it helps, and steps
//! back when it does not. Others may need the CPUs meanwhile, which limits the workers.
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
    /// Maximum number of workers at present, and at any time.
    limit: u32,
    workers_max: u32,
    search: SearchState,
    before: Option<Throughput>,
    bytes: u64,
    units: u32,
    since_ns: u64,
}

/// The state of the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SearchState {
    /// More workers are tried as long as they pay.
    Going,
    /// As many work as may at present.
    AtLimit,
    /// More do not pay, or the number is fixed.
    Over,
}

#[derive(Clone, Copy, Debug)]
struct Throughput {
    workers: u32,
    bytes_per_s: u64,
}

impl Ramp {
    /// Returns a fixed number of workers.
    pub fn fixed(workers: u32) -> Self {
        let workers = workers.max(1);
        Self { workers, search: SearchState::Over, ..Self::up_to(workers) }
    }

    /// Returns a search from one worker to at most `workers_max`.
    pub fn up_to(workers_max: u32) -> Self {
        let most = workers_max.max(1);
        Self {
            workers: 1,
            limit: most,
            workers_max: most,
            search: if most == 1 { SearchState::AtLimit } else { SearchState::Going },
            before: None,
            bytes: 0,
            units: 0,
            since_ns: 0,
        }
    }

    /// Returns the number of workers to use now.
    pub fn workers(&self) -> u32 {
        self.workers
    }

    /// Reports that the work started, or was handed to other workers, at this time.
    pub fn begin(&mut self, now_ns: u64) {
        self.since_ns = now_ns;
    }

    /// Limits the workers of a search from now on, to one at least. A higher limit lets the search
    /// go on, unless more workers did not pay.
    pub fn limit_to(&mut self, now_ns: u64, workers: u32) {
        self.limit = workers.clamp(1, self.workers_max);
        let is_free = self.search == SearchState::AtLimit && self.workers < self.limit;
        if self.workers > self.limit {
            self.workers = self.limit;
            self.search = SearchState::AtLimit;
        } else if is_free {
            self.search = SearchState::Going;
        } else {
            return;
        }
        // Speeds under another limit say nothing about more workers.
        self.before = None;
        self.measure_anew(now_ns);
    }

    /// Reports that a unit of work was finished.
    pub fn finished(&mut self, now_ns: u64, bytes: u64) {
        if self.search != SearchState::Going || bytes == 0 {
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
                self.search = SearchState::Over;
            }
            _ => {
                self.before = Some(now);
                if self.workers == self.limit {
                    self.search = SearchState::AtLimit;
                }
                self.workers = (self.workers * 2).min(self.limit);
            }
        }
        self.measure_anew(now_ns);
    }

    fn measure_anew(&mut self, now_ns: u64) {
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

    /// Goal: workers leave CPUs that others need, at once, and come back when those are free. Each
    /// unit takes the time of a worker's part of it, so twice the workers make twice the speed.
    #[test]
    fn a_limit_takes_workers_away_and_lets_them_come_back() {
        let mut ramp = Ramp::up_to(8);
        let mut now_ns = 0;
        let mut after = |limit: u32, units: u32| {
            for _ in 0..units {
                ramp.limit_to(now_ns, limit);
                now_ns += 1_000_000 / u64::from(ramp.workers());
                ramp.finished(now_ns, 1);
            }
            ramp.workers()
        };
        assert_eq!(after(1, 3), 1);
        assert_eq!(after(2, 100), 2);
        assert_eq!(after(1, 1), 1);
        assert_eq!(after(0, 100), 1, "one works in any case");
        assert_eq!(after(8, 100), 8);
        assert_eq!(after(3, 1), 3);
    }

    /// Goal: where more workers did not pay, a higher limit brings none.
    #[test]
    fn what_did_not_pay_is_not_tried_again() {
        let mut ramp = Ramp::up_to(8);
        for unit in 1..100 {
            ramp.finished(unit * 1000, 1);
        }
        assert_eq!(ramp.workers(), 1);
        ramp.limit_to(0, 1);
        ramp.limit_to(0, 8);
        ramp.finished(100_000, 1);
        ramp.finished(101_000, 1);
        assert_eq!(ramp.workers(), 1);
    }

    #[test]
    fn one_core_and_fixed_numbers_are_not_searched() {
        assert_eq!(settle(1, |_| 100), 1);
        let mut ramp = Ramp::fixed(3);
        ramp.finished(10, 1);
        assert_eq!(ramp.workers(), 3);
    }
}
