//! A pool over time: how its lists find their length, how much it holds, and how soon it frees
//! memory when nothing is allocated.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use nodeward_pager::{Cancel, PagePool, PoolStats};
use serde::Serialize;

use super::contenders::{HIGH_DEFAULT, PoolContender, PoolSetup, ReadyContender};
use super::pinned_threads::{PinnedThreads, with_pinned_threads};
use super::pool_bench::{PoolBench, PoolPlan};
use super::workload::AllocatorWorkload;
use crate::Error;

/// Periods under load: until the tuner by averages has settled, and two more.
const BUSY_PERIODS: u32 = 10;
/// Idle periods after it: one more than the pool has for freeing.
const IDLE_PERIODS: u32 = 5;
/// Periods in which threads only allocate, or only free. Tuning shows after one.
const PURE_PERIODS: u32 = 4;
/// Number of passes after the first one that show the pool's steady work.
const PASSES: u32 = 8;

/// Interval of the samples of a pool.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(10);
/// Runs that an allocating thread hands to a freeing one at a time, and maximum number of such
/// batches that wait.
const BATCH: usize = 256;
const QUEUE: usize = 4;

/// A sample of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PoolSample {
    /// Time since the load began.
    pub at_ns: u64,
    /// Bytes in memory.
    pub held_bytes: u64,
    /// Bytes of these that are allocated.
    pub in_use_bytes: u64,
    /// Maximum bytes of the longest list.
    pub pcp_high_bytes: u64,
}

/// Visits of the zone in a period.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PeriodVisits {
    /// Visits of the zone.
    pub visits: u64,
    /// Base pages allocated.
    pub pages: u64,
    /// Visits per million pages.
    pub per_million: f64,
}

/// A pool under load for some periods, and idle for some.
#[derive(Clone, Debug, Serialize)]
pub struct PoolTimeline {
    /// The contender.
    pub contender: PoolContender,
    /// Number of threads.
    pub threads: u32,
    /// Tuning period.
    pub period_ns: u64,
    /// Each of some passes after the first one.
    pub after_one_pass: Vec<PeriodVisits>,
    /// Each period of load.
    pub busy: Vec<PeriodVisits>,
    /// Maximum of bytes in memory.
    pub peak_held_bytes: u64,
    /// Maximum of bytes allocated, by all threads at once.
    pub peak_in_use_bytes: u64,
    /// Periods without load until the pool held no more than lists of the default length; `None` if
    /// it never did.
    pub idle_periods: Option<f64>,
    /// Time at which the load ended.
    pub idle_from_ns: u64,
    /// All samples.
    pub looks: Vec<PoolSample>,
}

impl PoolTimeline {
    /// Returns the maximum held divided by the maximum in use.
    pub fn held_share(&self) -> f64 {
        self.peak_held_bytes as f64 / self.peak_in_use_bytes.max(1) as f64
    }

    /// Returns [`PoolTimeline::idle_periods`], or the number of idle periods observed if it never
    /// freed enough.
    pub fn idle_periods_at_least(&self) -> f64 {
        let looked_ns = self.looks.last().map_or(0, |look| look.at_ns) - self.idle_from_ns;
        self.idle_periods.unwrap_or(looked_ns as f64 / self.period_ns as f64)
    }
}

/// A pool between threads that only allocate and threads that only free.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct PureFlow {
    /// The contender.
    pub contender: PoolContender,
    /// Base pages that went from one thread to the other.
    pub pages: u64,
    /// Default length of a CPU's list, in pages.
    pub pcp_high_default: u64,
    /// The longest length that a list was allowed, in pages.
    pub pcp_high_max: u64,
}

/// Returns the number of periods that the observation of a pool takes.
pub fn periods(plan: &PoolPlan) -> u32 {
    let over_time = if plan.over_time { BUSY_PERIODS + IDLE_PERIODS } else { 0 };
    over_time + if plan.pure { PURE_PERIODS } else { 0 }
}

/// Returns the number of visits per million pages.
pub fn per_million(visits: u64, pages: u64) -> f64 {
    visits as f64 * 1e6 / pages.max(1) as f64
}

impl PeriodVisits {
    fn between(before: &PoolStats, after: &PoolStats) -> Self {
        let visits = after.zone_visits - before.zone_visits;
        let pages = after.allocated_pages - before.allocated_pages;
        Self { visits, pages, per_million: per_million(visits, pages) }
    }
}

impl PoolBench<'_> {
    /// Observes each pool over time, if that is planned.
    pub fn timelines(&self) -> Result<Vec<PoolTimeline>, Error> {
        let pools = self.pools().filter(|_| self.plan.over_time && !self.is_cancelled());
        pools.map(|contender| self.measure_timeline(contender)).collect()
    }

    /// Observes each pool between threads that only allocate and threads that only free, if that
    /// is planned.
    pub fn pure_flows(&self) -> Result<Vec<PureFlow>, Error> {
        let is_wanted = self.plan.pure && self.cpus.len() > 1;
        let pools = self.pools().filter(|_| is_wanted && !self.is_cancelled());
        pools.map(|contender| self.measure_pure_flow(contender)).collect()
    }

    /// Sets up one thread on each CPU that takes single pages.
    fn ready_contender(&self, contender: PoolContender) -> Result<(ReadyContender, u32), Error> {
        let period = self.plan.period;
        let (load, cpus) = (self.load(0, false), self.cpus.len());
        let threads = u32::try_from(cpus).unwrap_or(u32::MAX);
        let huge = self.plan.huge;
        let setting = PoolSetup { load, huge, threads, cpus, period, housekeeper: true };
        Ok((ReadyContender::new(contender, &setting)?, threads))
    }

    fn measure_timeline(&self, contender: PoolContender) -> Result<PoolTimeline, Error> {
        let period = self.plan.period;
        let (player, threads) = self.ready_contender(contender)?;
        let Some(pool) = &player.pool else { unreachable!("{contender} is no pool") };
        let taker = &player.workload;
        with_pinned_threads(&self.machine, &self.cpus, threads, |workers| {
            let pass = |time| workers.run_on_all(move || taker.pass(time));
            let mut watch = PoolSampler::new(pool, period, self.progress.cancel());
            self.first_pass(workers, taker.as_ref(), threads, || watch.sample())?;
            watch.visits(); // discards those of the first pass
            let mut after_one_pass = Vec::new();
            for _ in 0..PASSES {
                pass(Duration::ZERO).into_iter().collect::<Result<Vec<_>, _>>()?;
                after_one_pass.push(watch.visits());
            }
            let mut busy = Vec::new();
            for _ in 0..BUSY_PERIODS {
                let working = pass(period);
                busy.push(self.sample_periods(&mut watch, 1));
                let works = working.into_iter().collect::<Result<Vec<_>, _>>()?;
                self.progress.add_moved(works.iter().map(|work| work.bytes).sum());
            }
            let idle_from_ns = watch.now_ns();
            self.sample_periods(&mut watch, IDLE_PERIODS);
            let (peak_held_bytes, peak_in_use_bytes) = watch.peaks();
            let period_ns = ns(period);
            let let_go_ns = release_delay_ns(&watch.looks, idle_from_ns, watch.bytes_by_default());
            Ok(PoolTimeline {
                contender,
                threads,
                period_ns,
                after_one_pass,
                busy,
                peak_held_bytes,
                peak_in_use_bytes,
                idle_periods: let_go_ns.map(|ns| ns as f64 / period_ns as f64),
                idle_from_ns,
                looks: watch.looks,
            })
        })
    }

    /// Lets all threads take all that they ever take, so that the pool has memory for all of them,
    /// and free it. Calls `look` while all of it is in use.
    fn first_pass<'a>(
        &self,
        workers: &PinnedThreads<'a>,
        taker: &'a dyn AllocatorWorkload,
        threads: u32,
        look: impl FnOnce(),
    ) -> Result<(), Error> {
        let runs = self.plan.bytes / self.page_bytes();
        let threads = 0..threads as usize;
        let taking: Vec<_> = threads
            .clone()
            .map(|thread| workers.run_on(thread, move || taker.touched_runs(runs)))
            .collect();
        let taken = taking.into_iter().flatten().collect::<Result<Vec<_>, _>>()?;
        look();
        let freeing: Vec<_> = threads
            .zip(taken)
            .map(|(thread, runs)| workers.run_on(thread, move || drop(runs)))
            .collect();
        freeing.into_iter().flatten().for_each(drop);
        Ok(())
    }

    fn measure_pure_flow(&self, contender: PoolContender) -> Result<PureFlow, Error> {
        let (player, _) = self.ready_contender(contender)?;
        let Some(pool) = &player.pool else { unreachable!("{contender} is no pool") };
        let (taker, over) = (&player.workload, &AtomicBool::new(false));
        with_pinned_threads(&self.machine, &self.cpus, 2, |workers| {
            let (give, take) = mpsc::sync_channel(QUEUE);
            let allocating = workers.run_on(0, move || {
                while !over.load(Relaxed) {
                    // The receiver is gone only if the other thread panicked.
                    let _ = give.send(taker.touched_runs(BATCH)?);
                }
                Ok(())
            });
            let freeing = workers.run_on(1, move || take.into_iter().for_each(drop));
            let mut watch = PoolSampler::new(pool, self.plan.period, self.progress.cancel());
            self.sample_periods(&mut watch, PURE_PERIODS);
            over.store(true, Relaxed);
            allocating.into_iter().collect::<Result<(), Error>>()?;
            freeing.into_iter().for_each(drop);
            let longest = watch.looks.iter().map(|look| look.pcp_high_bytes).max().unwrap_or(0);
            Ok(PureFlow {
                contender,
                pages: watch.pages(),
                pcp_high_default: HIGH_DEFAULT.into(),
                pcp_high_max: longest / pool.page_bytes() as u64,
            })
        })
    }

    fn sample_periods(&self, watch: &mut PoolSampler<'_>, periods: u32) -> PeriodVisits {
        for _ in 0..periods {
            watch.sample_period();
            self.advance(watch.period);
        }
        watch.visits()
    }
}

/// The observation of a pool.
struct PoolSampler<'a> {
    pool: &'a PagePool,
    period: Duration,
    cancel: &'a Cancel,
    began: Instant,
    at_start: PoolStats,
    at_last_question: PoolStats,
    looks: Vec<PoolSample>,
}

impl<'a> PoolSampler<'a> {
    fn new(pool: &'a PagePool, period: Duration, cancel: &'a Cancel) -> Self {
        let (first, began) = (pool.stats(), Instant::now());
        Self {
            pool,
            period,
            cancel,
            began,
            at_last_question: first.clone(),
            at_start: first,
            looks: Vec::new(),
        }
    }

    fn now_ns(&self) -> u64 {
        ns(self.began.elapsed())
    }

    /// Returns the visits since the previous call.
    fn visits(&mut self) -> PeriodVisits {
        let now = self.pool.stats();
        let visits = PeriodVisits::between(&self.at_last_question, &now);
        self.at_last_question = now;
        visits
    }

    /// Samples the pool until a period is over, or the end is requested.
    fn sample_period(&mut self) {
        let (began, pause) = (Instant::now(), SAMPLE_INTERVAL.min(self.period / 10));
        while began.elapsed() < self.period && !self.cancel.is_cancelled() {
            self.sample();
            thread::sleep(pause);
        }
    }

    fn sample(&mut self) {
        let stats = self.pool.stats();
        let bytes = |pages: u64| pages * self.pool.page_bytes() as u64;
        self.looks.push(PoolSample {
            at_ns: self.now_ns(),
            held_bytes: bytes(stats.held_pages),
            in_use_bytes: bytes(stats.in_use_pages),
            pcp_high_bytes: bytes(stats.lists.iter().map(|l| l.high.into()).max().unwrap_or(0)),
        });
    }

    /// Returns the maximum held, and the maximum seen in use, in bytes.
    fn peaks(&self) -> (u64, u64) {
        let held = self.at_last_question.peak_held_pages * self.pool.page_bytes() as u64;
        (held, self.looks.iter().map(|look| look.in_use_bytes).max().unwrap_or(0))
    }

    /// Returns the bytes of all lists at their default length.
    fn bytes_by_default(&self) -> u64 {
        let pages = self.at_last_question.lists.len() as u64 * u64::from(HIGH_DEFAULT);
        pages * self.pool.page_bytes() as u64
    }

    /// Returns the pages allocated since the first sample.
    fn pages(&self) -> u64 {
        self.at_last_question.allocated_pages - self.at_start.allocated_pages
    }
}

/// Returns the time after `from_ns` at which at most `bytes` were held; `None` if never.
fn release_delay_ns(looks: &[PoolSample], from_ns: u64, bytes: u64) -> Option<u64> {
    let mut later = looks.iter().filter(|look| look.at_ns >= from_ns);
    later.find(|look| look.held_bytes <= bytes).map(|look| look.at_ns - from_ns)
}

fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the time counts from the end of the load, not from an earlier low.
    #[test]
    fn letting_go_is_counted_from_the_end_of_the_load() {
        let look = |at_ns, held_bytes| PoolSample { at_ns, held_bytes, ..PoolSample::default() };
        let looks = [look(0, 1), look(10, 9), look(20, 9), look(25, 5), look(30, 2)];
        assert_eq!(release_delay_ns(&looks, 20, 5), Some(5));
        assert_eq!(release_delay_ns(&looks, 20, 1), None);
    }

    /// Goal: 30 visits for 2000 pages are 15,000 for a million; zero pages are no division by zero.
    #[test]
    fn visits_are_for_a_million_pages() {
        let at = |zone_visits, allocated_pages| PoolStats {
            zone_visits,
            allocated_pages,
            ..PoolStats::default()
        };
        let visits = PeriodVisits::between(&at(10, 1000), &at(40, 3000));
        assert_eq!(visits, PeriodVisits { visits: 30, pages: 2000, per_million: 15_000.0 });
        assert_eq!(PeriodVisits::between(&at(1, 1), &at(1, 1)).per_million, 0.0);
    }
}
