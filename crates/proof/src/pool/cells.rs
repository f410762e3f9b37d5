//! The table: throughput in alternation, latency in a pass of its own, and visits of the zone.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use nodeward_pager::PagePool;
use serde::Serialize;

use super::contenders::{PoolContender, PoolSetup, ReadyContender};
use super::pinned_threads::{PinnedThreads, with_pinned_threads};
use super::pool_bench::PoolBench;
use super::timeline::per_million;
use super::workload::{PassLoad, PassResult};
use crate::stall_times::{TimeQuantiles, empty_histogram};
use crate::{Error, median};

/// Number of passes per tuning period: enough for a whole one wherever it begins, and one more.
const PERIOD_PASSES: u32 = 3;
const PERIOD_MIN: Duration = Duration::from_millis(1);
/// Periods until a pool that tunes by averages has reached 99.6 % of a depth (1 - 1/2^8).
const PERIODS_TO_SETTLE: u32 = 8;

/// One row of the table.
#[derive(Clone, Debug, Serialize)]
pub struct PoolCell {
    /// The contender.
    pub contender: PoolContender,
    /// Number of threads that take and free.
    pub threads: u32,
    /// Order: runs have 2^order pages.
    pub order: u32,
    /// True if runs had to read as zero.
    pub zeroed: bool,
    /// Median of bytes per second that were taken, touched and freed.
    pub bytes_per_s: u64,
    /// Ratio of speed to the kernel and other allocators in the same round.
    pub times_as_fast: BTreeMap<PoolContender, Ratio>,
    /// Number of times that a zone's lock was taken per million base pages, for pools.
    pub zone_visits_per_million: Option<f64>,
    /// Time from the request of a run until its first word was written.
    pub latency: TimeQuantiles,
    /// Number of bytes that should have been zero and were not.
    pub dirty_bytes: u64,
}

/// A ratio of each round, and their median.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ratio {
    /// The median.
    pub median: f64,
    /// The ratios of all rounds.
    pub rounds: Vec<f64>,
}

impl Ratio {
    /// The ratios of two series measured in alternation.
    fn of(ones: &[f64], others: &[f64]) -> Self {
        let rounds: Vec<f64> =
            ones.iter().zip(others).map(|(one, other)| one / other.max(1.0)).collect();
        Self { median: median(&rounds), rounds }
    }
}

/// Returns the median time of two reads of the clock, in nanoseconds.
pub fn clock_ns() -> u64 {
    let mut times = empty_histogram();
    for _ in 0..1000 {
        let began = Instant::now();
        times.saturating_record(u64::try_from(began.elapsed().as_nanos()).unwrap_or(0));
    }
    times.value_at_quantile(0.5)
}

/// Counters of a pool over measured turns.
#[derive(Clone, Copy, Debug, Default)]
struct ZoneVisitCount {
    visits: u64,
    pages: u64,
}

impl ZoneVisitCount {
    fn of(pool: &PagePool) -> Self {
        let stats = pool.stats();
        Self { visits: stats.zone_visits, pages: stats.allocated_pages }
    }

    fn add(&mut self, before: Self, after: Self) {
        self.visits += after.visits - before.visits;
        self.pages += after.pages - before.pages;
    }

    fn per_million(self) -> f64 {
        per_million(self.visits, self.pages)
    }
}

/// A contender and its results so far.
struct ContenderScore<'a> {
    player: &'a ReadyContender,
    /// Bytes per second of each round.
    rates: Vec<f64>,
    visits: ZoneVisitCount,
}

impl PoolBench<'_> {
    /// Measures the table.
    pub(super) fn cells(&self, cells: &mut Vec<PoolCell>) -> Result<(), Error> {
        let plan = self.plan;
        for &threads in &plan.threads {
            for &order in &plan.orders {
                for &zeroed in &plan.zeroed {
                    if self.is_cancelled() {
                        return Ok(());
                    }
                    cells.append(&mut self.group(threads, self.load(order, zeroed))?);
                }
            }
        }
        Ok(())
    }

    /// Measures all contenders with the same work.
    fn group(&self, threads: u32, load: PassLoad) -> Result<Vec<PoolCell>, Error> {
        let period = self.period(threads, load)?;
        let (huge, cpus) = (self.plan.huge, self.cpus.len());
        let setting = PoolSetup { load, huge, threads, cpus, period, housekeeper: false };
        let ready = |&contender: &PoolContender| ReadyContender::new(contender, &setting);
        let players = self.contenders.iter().map(ready).collect::<Result<Vec<_>, _>>()?;
        with_pinned_threads(&self.machine, &self.cpus, threads, |workers| {
            let mut scores: Vec<_> = players.iter().map(ContenderScore::new).collect();
            for round in 0..self.plan.rounds as usize {
                let count = scores.len();
                for turn in 0..count {
                    if self.is_cancelled() {
                        break;
                    }
                    // Each contender goes first as often as last.
                    let score = &mut scores[(round + turn) % count];
                    self.progress.add_moved(score.run_turn(workers, self.turn_time(), period)?);
                    self.advance(self.turn_time());
                }
            }
            scores.iter().map(|score| score.cell(workers, threads, load, &scores)).collect()
        })
    }

    /// Returns the time of a turn.
    fn turn_time(&self) -> Duration {
        self.plan.time / self.plan.rounds.max(1)
    }

    /// Returns a period that holds some passes of a pool, so that the tuner sees its depths.
    fn period(&self, threads: u32, load: PassLoad) -> Result<Duration, Error> {
        let Some(contender) = self.pools().next() else { return Ok(PERIOD_MIN) };
        let setting = PoolSetup {
            load,
            huge: self.plan.huge,
            threads,
            cpus: self.cpus.len(),
            period: PERIOD_MIN,
            housekeeper: false,
        };
        let player = ReadyContender::new(contender, &setting)?;
        with_pinned_threads(&self.machine, &self.cpus, threads, |workers| {
            pass(workers, &player, Duration::ZERO)?; // the first pass also waits for new memory
            let works = pass(workers, &player, Duration::ZERO)?;
            let longest = works.iter().map(|work| work.took).max().unwrap_or_default();
            Ok((longest * PERIOD_PASSES).max(PERIOD_MIN))
        })
    }
}

fn pass<'a>(
    workers: &PinnedThreads<'a>,
    player: &'a ReadyContender,
    time: Duration,
) -> Result<Vec<PassResult>, Error> {
    workers.run_on_all(move || player.workload.pass(time)).into_iter().collect()
}

impl<'a> ContenderScore<'a> {
    fn new(player: &'a ReadyContender) -> Self {
        Self { player, rates: Vec::new(), visits: ZoneVisitCount::default() }
    }

    /// Runs passes that do not count, until the contender is as it would be without the others'
    /// turns; then passes that count. Returns the bytes of the latter.
    fn run_turn(
        &mut self,
        workers: &PinnedThreads<'a>,
        slice: Duration,
        period: Duration,
    ) -> Result<u64, Error> {
        let settling = match self.player.pool {
            Some(_) => period * PERIODS_TO_SETTLE,
            None => Duration::ZERO,
        };
        pass(workers, self.player, settling)?;
        let before = self.player.pool.as_ref().map(ZoneVisitCount::of);
        let works = pass(workers, self.player, slice)?;
        self.rates.push(works.iter().map(PassResult::rate).sum());
        if let (Some(pool), Some(before)) = (&self.player.pool, before) {
            self.visits.add(before, ZoneVisitCount::of(pool));
        }
        Ok(works.iter().map(|work| work.bytes).sum())
    }

    fn cell(
        &self,
        workers: &PinnedThreads<'a>,
        threads: u32,
        load: PassLoad,
        all: &[Self],
    ) -> Result<PoolCell, Error> {
        let PassLoad { order, zeroed, .. } = load;
        let contender = self.player.contender;
        let others = all.iter().filter(|other| {
            let other = other.player.contender;
            other != contender && PoolContender::REFERENCES.contains(&other)
        });
        Ok(PoolCell {
            contender,
            threads,
            order,
            zeroed,
            bytes_per_s: median(&self.rates) as u64,
            times_as_fast: others
                .map(|other| (other.player.contender, Ratio::of(&self.rates, &other.rates)))
                .collect(),
            zone_visits_per_million: self.player.pool.as_ref().map(|_| self.visits.per_million()),
            latency: self.latency(workers)?,
            dirty_bytes: if zeroed { self.dirty_bytes(workers)? } else { 0 },
        })
    }

    /// Measures latency in a pass of its own, because reading the clock slows down throughput.
    fn latency(&self, workers: &PinnedThreads<'a>) -> Result<TimeQuantiles, Error> {
        let player = self.player;
        let timed = workers.run_on_all(|| {
            let mut times = empty_histogram();
            player.workload.pass(Duration::ZERO)?;
            player.workload.time_runs(&mut times).map(|()| times)
        });
        let mut all = empty_histogram();
        for times in timed {
            all += times?;
        }
        Ok(TimeQuantiles::of(&all))
    }

    fn dirty_bytes(&self, workers: &PinnedThreads<'a>) -> Result<u64, Error> {
        let player = self.player;
        workers.run_on_all(|| player.workload.count_dirty_bytes()).into_iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: ratios are taken within a round, so that drift of the machine's speed cancels out.
    /// They are 2, 4 and 3 here, with a median of 3.
    #[test]
    fn ratios_are_of_the_same_round() {
        let ratio = Ratio::of(&[20.0, 100.0, 60.0], &[10.0, 25.0, 20.0]);
        assert_eq!(ratio, Ratio { median: 3.0, rounds: vec![2.0, 4.0, 3.0] });
    }

    /// Goal: visits of turns that count are counted, and no others: 10 for 4000 pages.
    #[test]
    fn visits_are_of_measured_turns() {
        let at = |visits, pages| ZoneVisitCount { visits, pages };
        let mut sum = ZoneVisitCount::default();
        sum.add(at(100, 50_000), at(104, 52_000));
        sum.add(at(900, 90_000), at(906, 92_000));
        assert_eq!(sum.per_million(), 2500.0);
    }
}
