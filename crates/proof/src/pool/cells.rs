//! The table: throughput in turns, latency in a pass of its own, visits of the zone.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use nodeward_pager::PagePool;
use serde::Serialize;

use super::crew::{Crew, with_crew};
use super::ours::{Player, Setting};
use super::source::{Load, Work};
use super::{Bench, Contender};
use crate::stalls::{Times, empty};
use crate::{Error, median};

/// A period of tuning holds so many passes: one that is whole, wherever it begins, and one more.
const PERIOD_PASSES: u32 = 3;
const PERIOD_MIN: Duration = Duration::from_millis(1);
/// A pool that tunes by averages has seen 99.6 % of a depth after so many periods (1 - 1/2^8).
const PERIODS_TO_SETTLE: u32 = 8;

/// One row of the table.
#[derive(Clone, Debug, Serialize)]
pub struct PoolCell {
    /// Who.
    pub contender: Contender,
    /// Threads that take and free.
    pub threads: u32,
    /// Runs have 2^order pages.
    pub order: u32,
    /// Whether they were to read as zero.
    pub zeroed: bool,
    /// Taken, touched and freed: the median.
    pub bytes_per_s: u64,
    /// How many times as fast as the kernel and other allocators in the same round.
    pub times_as_fast: BTreeMap<Contender, Ratio>,
    /// How often the lock of a zone was taken for a million base pages, if it is a pool.
    pub zone_visits_per_million: Option<f64>,
    /// How long a run took until its first word was written.
    pub latency: Times,
    /// Bytes that should have been zero and were not.
    pub dirty_bytes: u64,
}

/// A ratio of each round.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ratio {
    /// The one in the middle.
    pub median: f64,
    /// All of them.
    pub rounds: Vec<f64>,
}

impl Ratio {
    /// Of numbers that were measured in turns.
    fn of(ones: &[f64], others: &[f64]) -> Self {
        let rounds: Vec<f64> =
            ones.iter().zip(others).map(|(one, other)| one / other.max(1.0)).collect();
        Self { median: median(&rounds), rounds }
    }
}

/// The middle of what two reads of the clock take.
pub fn clock_ns() -> u64 {
    let mut times = empty();
    for _ in 0..1000 {
        let began = Instant::now();
        times.saturating_record(u64::try_from(began.elapsed().as_nanos()).unwrap_or(0));
    }
    times.value_at_quantile(0.5)
}

/// What a pool did in measured turns.
#[derive(Clone, Copy, Debug, Default)]
struct Visits {
    visits: u64,
    pages: u64,
}

impl Visits {
    fn of(pool: &PagePool) -> Self {
        let stats = pool.stats();
        Self { visits: stats.zone_visits, pages: stats.allocated_pages }
    }

    fn add(&mut self, before: Self, after: Self) {
        self.visits += after.visits - before.visits;
        self.pages += after.pages - before.pages;
    }

    fn per_million(self) -> f64 {
        super::course::per_million(self.visits, self.pages)
    }
}

/// A contender and what it did until now.
struct Score<'a> {
    player: &'a Player,
    /// Bytes a second in each round.
    rates: Vec<f64>,
    visits: Visits,
}

impl Bench<'_> {
    /// The table.
    pub(super) fn cells(&self, cells: &mut Vec<PoolCell>) -> Result<(), Error> {
        let plan = self.plan;
        for &threads in &plan.threads {
            for &order in &plan.orders {
                for &zeroed in &plan.zeroed {
                    if self.is_over() {
                        return Ok(());
                    }
                    cells.append(&mut self.group(threads, self.load(order, zeroed))?);
                }
            }
        }
        Ok(())
    }

    pub(super) fn load(&self, order: u32, zeroed: bool) -> Load {
        Load { bytes: self.plan.bytes, order, zeroed, page_bytes: self.page_bytes() }
    }

    /// All contenders with the same work.
    fn group(&self, threads: u32, load: Load) -> Result<Vec<PoolCell>, Error> {
        let period = self.period(threads, load)?;
        let (huge, cpus) = (self.plan.huge, self.cpus.len());
        let setting = Setting { load, huge, threads, cpus, period, housekeeper: false };
        let ready = |&contender: &Contender| Player::new(contender, &setting);
        let players = self.contenders.iter().map(ready).collect::<Result<Vec<_>, _>>()?;
        with_crew(&self.machine, &self.cpus, threads, |crew| {
            let mut scores: Vec<_> = players.iter().map(Score::new).collect();
            for round in 0..self.plan.rounds as usize {
                let count = scores.len();
                for turn in 0..count {
                    if self.is_over() {
                        break;
                    }
                    // Each goes first as often as last.
                    let score = &mut scores[(round + turn) % count];
                    self.progress.moved(score.turn(crew, self.slice(), period)?);
                    self.advance(self.slice());
                }
            }
            scores.iter().map(|score| score.cell(crew, threads, load, &scores)).collect()
        })
    }

    /// How long a turn is measured.
    fn slice(&self) -> Duration {
        self.plan.time / self.plan.rounds.max(1)
    }

    /// A period that holds some passes of a pool, so that its depths can be seen.
    fn period(&self, threads: u32, load: Load) -> Result<Duration, Error> {
        let Some(contender) = self.pools().next() else { return Ok(PERIOD_MIN) };
        let setting = Setting {
            load,
            huge: self.plan.huge,
            threads,
            cpus: self.cpus.len(),
            period: PERIOD_MIN,
            housekeeper: false,
        };
        let player = Player::new(contender, &setting)?;
        with_crew(&self.machine, &self.cpus, threads, |crew| {
            pass(crew, &player, Duration::ZERO)?; // with memory that has to be had first
            let works = pass(crew, &player, Duration::ZERO)?;
            let longest = works.iter().map(|work| work.took).max().unwrap_or_default();
            Ok((longest * PERIOD_PASSES).max(PERIOD_MIN))
        })
    }
}

fn pass<'a>(crew: &Crew<'a>, player: &'a Player, time: Duration) -> Result<Vec<Work>, Error> {
    crew.each(move || player.taker.pass(time)).into_iter().collect()
}

impl<'a> Score<'a> {
    fn new(player: &'a Player) -> Self {
        Self { player, rates: Vec::new(), visits: Visits::default() }
    }

    /// Passes that do not count, until it is as it would be if nobody else had had a turn; then
    /// those that do. Returns how many bytes these took.
    fn turn(&mut self, crew: &Crew<'a>, slice: Duration, period: Duration) -> Result<u64, Error> {
        let settling = match self.player.pool {
            Some(_) => period * PERIODS_TO_SETTLE,
            None => Duration::ZERO,
        };
        pass(crew, self.player, settling)?;
        let before = self.player.pool.as_ref().map(Visits::of);
        let works = pass(crew, self.player, slice)?;
        self.rates.push(works.iter().map(Work::rate).sum());
        if let (Some(pool), Some(before)) = (&self.player.pool, before) {
            self.visits.add(before, Visits::of(pool));
        }
        Ok(works.iter().map(|work| work.bytes).sum())
    }

    fn cell(
        &self,
        crew: &Crew<'a>,
        threads: u32,
        load: Load,
        all: &[Self],
    ) -> Result<PoolCell, Error> {
        let Load { order, zeroed, .. } = load;
        let contender = self.player.contender;
        let others = all.iter().filter(|other| {
            let other = other.player.contender;
            other != contender && Contender::MEASURES.contains(&other)
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
            latency: self.latency(crew)?,
            dirty_bytes: if zeroed { self.dirt(crew)? } else { 0 },
        })
    }

    /// In a pass of its own: to read the clock would slow the others down.
    fn latency(&self, crew: &Crew<'a>) -> Result<Times, Error> {
        let player = self.player;
        let timed = crew.each(|| {
            let mut times = empty();
            player.taker.pass(Duration::ZERO)?;
            player.taker.time(&mut times).map(|()| times)
        });
        let mut all = empty();
        for times in timed {
            all += times?;
        }
        Ok(Times::of(&all))
    }

    fn dirt(&self, crew: &Crew<'a>) -> Result<u64, Error> {
        let player = self.player;
        crew.each(|| player.taker.count_dirt()).into_iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: ratios are taken within a round, so that a machine whose speed drifts is fair: it was
    /// 2, 4 and 3 times as fast, and would be 2.5 times by the medians of speeds.
    #[test]
    fn ratios_are_of_the_same_round() {
        let ratio = Ratio::of(&[20.0, 100.0, 60.0], &[10.0, 25.0, 20.0]);
        assert_eq!(ratio, Ratio { median: 3.0, rounds: vec![2.0, 4.0, 3.0] });
    }

    /// Goal: visits of turns that count are counted, and no others: 10 for 4000 pages.
    #[test]
    fn visits_are_of_measured_turns() {
        let at = |visits, pages| Visits { visits, pages };
        let mut sum = Visits::default();
        sum.add(at(100, 50_000), at(104, 52_000));
        sum.add(at(900, 90_000), at(906, 92_000));
        assert_eq!(sum.per_million(), 2500.0);
    }
}
