//! Migrations against memcpy, and against the kernel's bare calls, with the same number of threads.

use std::thread;
use std::time::{Duration, Instant};

use nodeward_pager::{Backend, Copier, Memcpy, Migration, PageSize, StepTimes, Supply};

use super::bare_threads::BareThreads;
use super::bench_row::{BareRatio, MemcpyCell, StepTimeShares, WriterRate};
use super::page_size_bench::PageSizeBench;
use super::plan::{Column, MeasurePlan};
use crate::measured_region::system;
use crate::{
    CopyBuffers, Error, Findings, LoadControl, LoadReport, LoadSpec, MeasuredRegion,
    MigrationSample, Pattern, median, under_load,
};

/// Threads beside a migration: one writes without rest, one reads now and then.
const WRITERS: usize = 1;
const READERS: usize = 1;

/// Bounds of the time for which the writer's speed alone is measured in each round: as long as a
/// migration takes, within these bounds.
const QUIET_MIN: Duration = Duration::from_millis(20);
const QUIET_MAX: Duration = Duration::from_millis(500);

/// What migrations are compared with.
pub(super) struct ReferenceCopies<'a> {
    pub buffers: &'a mut CopyBuffers,
    pub fastest: &'a dyn Copier,
    pub lanes: u32,
    /// The kernel's calls, where migrations use them: for base pages, by UFFDIO_MOVE.
    pub bare: Option<BareThreads>,
}

impl ReferenceCopies<'_> {
    /// Makes one copy by memcpy(3), and one as fast as possible.
    fn both(&mut self) -> Result<(Duration, Duration), Error> {
        Ok((self.copy_with(&Memcpy)?, self.copy_with(self.fastest)?))
    }

    fn copy_with(&mut self, copier: &dyn Copier) -> Result<Duration, Error> {
        let lanes = self.lanes as usize;
        self.buffers.copy(copier, lanes).map_err(system("copies with that many threads"))
    }

    /// Returns the bytes per second of the kernel's calls.
    fn bare_rate(&mut self, column: Column) -> Result<Option<f64>, Error> {
        let Some(bare) = &mut self.bare else { return Ok(None) };
        Ok(Some(bare.pass(column, self.fastest)?.rate()))
    }
}

impl PageSizeBench<'_> {
    /// Returns threads for the kernel's calls that a migration of the region makes, if it makes
    /// those that are known.
    pub(super) fn bare_threads(
        &self,
        subject: &MeasuredRegion,
        lanes: u32,
    ) -> Result<Option<BareThreads>, Error> {
        let is_known = (self.page, subject.pager().backend()) == (PageSize::Base, Backend::Move);
        let MeasurePlan { bytes, nodes, .. } = *self.plan;
        let open = || BareThreads::open(lanes, bytes, nodes, self.cpus.clone());
        is_known.then(open).transpose()
    }

    /// Measures one cell of the table.
    pub(super) fn cell(
        &self,
        subject: &MeasuredRegion,
        pattern: &Pattern<'_>,
        copies: &mut ReferenceCopies<'_>,
        column: Column,
    ) -> Result<MemcpyCell, Error> {
        let how = Migration {
            lanes: Some(copies.lanes),
            supply: match (subject.pager().backend(), column) {
                (Backend::Kernel, _) => Supply::Any,
                (_, Column::OneWay) => Supply::OneWay,
                (_, Column::RecycledWriter | Column::RecycledAlone) => Supply::Recycled,
            },
            cancel: Some(self.progress.cancel()),
            ..Migration::default()
        };
        let (rounds, load) = match column {
            Column::RecycledWriter => {
                let (rounds, load) = self.beside_writer(pattern, |reins, quiet| {
                    round_beside_writer(subject, &how, reins, copies, quiet)
                })?;
                (rounds, Some(load))
            }
            Column::OneWay | Column::RecycledAlone => {
                let round = |number| round_alone(subject, &how, copies, column, number);
                let rounds = self.rounds(round)?;
                (rounds, None)
            }
        };
        let findings = load.as_ref().map_or_else(|| pattern.check_all(), |load| load.findings);
        let mut cell = self.summarize(column, copies.lanes, &rounds);
        cell.fastest = copies.fastest.name();
        cell.findings = findings;
        cell.stalls = load.map(|load| load.stalls.report());
        Ok(cell)
    }

    fn beside_writer(
        &self,
        pattern: &Pattern<'_>,
        mut round: impl FnMut(&LoadControl, Duration) -> Result<MemcpyRound, Error>,
    ) -> Result<(Vec<MemcpyRound>, LoadReport), Error> {
        let load = LoadSpec { writers: WRITERS, readers: READERS, seed: self.plan.seed };
        let (rounds, report) = under_load(pattern, load, |reins| {
            let mut quiet = QUIET_MIN;
            self.rounds(|_| {
                let round = round(reins, quiet)?;
                quiet = Duration::from_nanos(round.sample.ns).clamp(QUIET_MIN, QUIET_MAX);
                Ok(round)
            })
        })
        .map_err(system("counters of the threads that write and read"))?;
        Ok((rounds?, report))
    }

    fn summarize(&self, column: Column, lanes: u32, rounds: &[MemcpyRound]) -> MemcpyCell {
        let bytes = self.plan.bytes;
        let all = |of: &dyn Fn(&MemcpyRound) -> Option<f64>| -> Vec<f64> {
            rounds.iter().filter_map(of).collect()
        };
        let ratios = all(&|round| Some(round.ratio(bytes, round.memcpy)));
        let fastest = all(&|round| Some(round.ratio(bytes, round.fastest)));
        let beside = all(&|round| Some(round.ratio(bytes, round.beside_writer?)));
        let bare = all(&|round| round.bare.map(|bare| bare / round.sample.rate()));
        let rate = |took: Duration| bytes as f64 / took.as_secs_f64().max(1e-9);
        let alone = all(&|round| round.writer.map(|(alone, _)| alone));
        let moving = all(&|round| round.writer.map(|(_, moving)| moving));
        let shares = all(&|round| round.writer.map(|(alone, moving)| moving / alone.max(1.0)));
        let moved_bytes: u64 = rounds.iter().map(|round| round.sample.bytes).sum();
        self.progress.add_moved(moved_bytes);
        MemcpyCell {
            column,
            lanes,
            lanes_at_work: rounds.iter().map(|r| r.sample.report.lanes).min().unwrap_or(0),
            ratio: median(&ratios),
            ratios,
            ratio_beside: (!beside.is_empty()).then(|| median(&beside)),
            ratio_fastest: median(&fastest),
            fastest: "",
            bare: (!bare.is_empty()).then(|| BareRatio {
                ratio: median(&bare),
                ratios: bare,
                bytes_per_s: median(&all(&|round| round.bare)) as u64,
            }),
            memcpy_bytes_per_s: median(&all(&|round| Some(rate(round.memcpy)))) as u64,
            fastest_bytes_per_s: median(&all(&|round| Some(rate(round.fastest)))) as u64,
            bytes_per_s: median(&all(&|round| Some(round.sample.rate()))) as u64,
            moved_bytes,
            left_bytes: (rounds.len() * bytes) as u64 - moved_bytes,
            spent: StepTimeShares::of(rounds),
            longest_hold_ns: longest_hold(rounds),
            writer: (!alone.is_empty()).then(|| WriterRate {
                alone_pages_per_s: median(&alone),
                moving_pages_per_s: median(&moving),
                share: median(&shares),
            }),
            stalls: None,
            findings: Findings::default(),
        }
    }
}

fn longest_hold(rounds: &[MemcpyRound]) -> u64 {
    rounds.iter().map(|round| round.sample.report.longest_hold_ns).max().unwrap_or(0)
}

/// A round without other threads; migration and copies alternate in going first.
fn round_alone(
    subject: &MeasuredRegion,
    how: &Migration<'_>,
    copies: &mut ReferenceCopies<'_>,
    column: Column,
    number: usize,
) -> Result<MemcpyRound, Error> {
    let mut compared = || Ok::<_, Error>((copies.both()?, copies.bare_rate(column)?));
    let before = number.is_multiple_of(2).then(&mut compared).transpose()?;
    let sample = subject.migrate(how)?;
    let ((memcpy, fastest), bare) = before.map_or_else(compared, Ok)?;
    Ok(MemcpyRound { memcpy, fastest, beside_writer: None, writer: None, bare, sample })
}

/// A round of: copies alone, the writer alone, a copy and the kernel's calls beside the writer, a
/// migration beside the writer.
fn round_beside_writer(
    subject: &MeasuredRegion,
    how: &Migration<'_>,
    reins: &LoadControl,
    copies: &mut ReferenceCopies<'_>,
    quiet: Duration,
) -> Result<MemcpyRound, Error> {
    reins.pause();
    let (memcpy, fastest) = copies.both()?;
    reins.run(false);
    let alone = written_per_s(reins, || thread::sleep(quiet)).0;
    let beside = copies.copy_with(copies.fastest)?;
    let bare = copies.bare_rate(Column::RecycledWriter)?;
    reins.run(true);
    let (moving, sample) = written_per_s(reins, || subject.migrate(how));
    reins.run(false);
    let (beside, writer) = (Some(beside), Some((alone, moving)));
    Ok(MemcpyRound { memcpy, fastest, beside_writer: beside, writer, bare, sample: sample? })
}

/// Returns the pages written per second while `work` runs.
pub(super) fn written_per_s<T>(reins: &LoadControl, work: impl FnOnce() -> T) -> (f64, T) {
    let (before, began) = (reins.pages_written(), Instant::now());
    let done = work();
    let written = reins.pages_written() - before;
    (written as f64 / began.elapsed().as_secs_f64(), done)
}

impl StepTimeShares {
    fn of(rounds: &[MemcpyRound]) -> Self {
        let mut sum = StepTimes::default();
        let mut all_ns = 0;
        for MemcpyRound { sample, .. } in rounds {
            sum.add(sample.report.step_times);
            all_ns += sample.ns * u64::from(sample.report.lanes.max(1));
        }
        let share = |ns: u64| ns as f64 / all_ns.max(1) as f64;
        let known = sum.unmap_ns + sum.copy_ns + sum.map_ns + sum.supply_ns;
        Self {
            unmap: share(sum.unmap_ns),
            copy: share(sum.copy_ns),
            map: share(sum.map_ns),
            supply: share(sum.supply_ns),
            rest: share(all_ns.saturating_sub(known)),
        }
    }
}

/// The measurements of one round.
struct MemcpyRound {
    memcpy: Duration,
    fastest: Duration,
    beside_writer: Option<Duration>,
    writer: Option<(f64, f64)>,
    /// Bytes per second of the kernel's calls.
    bare: Option<f64>,
    sample: MigrationSample,
}

impl MemcpyRound {
    /// Returns the ratio of speed to a copy of `bytes` bytes that took `copy`.
    fn ratio(&self, bytes: usize, copy: Duration) -> f64 {
        self.sample.rate() * copy.as_secs_f64() / bytes as f64
    }
}
