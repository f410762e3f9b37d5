//! Measurements beside the table.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

use nodeward_linux::own_process;
use nodeward_machine::Machine;
use nodeward_model::Nodemask;
use nodeward_pager::{Budget, Migration, MigrationReport, Mode, Supply};
use nodeward_policy::workers;

use super::bench_row::{KernelCell, LanesCell, LazyCell, StallCell, VmaCount};
use super::page_size_bench::{PageSizeBench, pattern};
use super::plan::{Extra, NO_POOL};
use crate::measured_region::system;
use crate::{
    Error, LoadSpec, MeasuredRegion, MigrationSample, Pattern, Xorshift64, median, under_load,
};

/// Interval at which mappings are counted while pages move.
const COUNTING_INTERVAL: Duration = Duration::from_millis(2);

/// Number of parts of the region that are moved one by one, to see whether mappings accumulate.
const PARTS: usize = 64;

impl PageSizeBench<'_> {
    /// Measures the extras of the plan on a region whose pager has pages for all of it. `mappings`
    /// is the number of mappings before the two existed.
    pub(super) fn measure_extras(
        &mut self,
        subject: &MeasuredRegion,
        pattern: &Pattern<'_>,
        mappings: usize,
    ) -> Result<(), Error> {
        let by_us = subject.can_move_in_place();
        if self.wants(Extra::Lanes) && self.plan.lanes_max() > 1 {
            self.row.lanes = Some(self.lanes(subject)?);
        }
        if self.wants(Extra::Lazy) && by_us {
            self.row.lazy = Some(self.lazy(subject)?);
        }
        if self.wants(Extra::Stall) && by_us {
            self.row.stall = Some(self.stall(subject, pattern)?);
        }
        if self.wants(Extra::Vmas) {
            self.row.vmas = Some(self.vmas(subject, mappings)?);
        }
        self.row.findings.add(&pattern.check_all());
        Ok(())
    }

    pub(super) fn wants(&self, extra: Extra) -> bool {
        self.plan.wants(extra) && !self.is_cancelled()
    }

    pub(super) fn how(&self, lanes: u32) -> Migration<'_> {
        let cancel = Some(self.progress.cancel());
        Migration { lanes: Some(lanes), cancel, ..Migration::default() }
    }

    /// Measures pairs; the two alternate in going first.
    pub(super) fn pairs(
        &self,
        mut one: impl FnMut() -> Result<MigrationSample, Error>,
        mut other: impl FnMut() -> Result<MigrationSample, Error>,
    ) -> Result<Vec<SamplePair>, Error> {
        let pairs = self.rounds(|number| {
            if number.is_multiple_of(2) {
                return Ok(SamplePair { one: one()?, other: other()? });
            }
            let other = other()?;
            Ok(SamplePair { one: one()?, other })
        })?;
        self.progress.add_moved(pairs.iter().map(|pair| pair.one.bytes + pair.other.bytes).sum());
        Ok(pairs)
    }

    fn lanes(&self, subject: &MeasuredRegion) -> Result<LanesCell, Error> {
        let lanes = self.plan.lanes_max();
        let pairs =
            self.pairs(|| subject.migrate(&self.how(lanes)), || subject.migrate(&self.how(1)))?;
        let ratios = ratios(&pairs);
        Ok(LanesCell { lanes, ratio: median(&ratios), ratios })
    }

    fn lazy(&self, subject: &MeasuredRegion) -> Result<LazyCell, Error> {
        let pairs = self.pairs(
            || self.migrate_lazily_at_destination(subject),
            || subject.migrate(&self.how(1)),
        )?;
        let ratios = ratios(&pairs);
        Ok(LazyCell {
            ratio: median(&ratios),
            ratios,
            bytes_per_s: rate(pairs.iter().map(|pair| &pair.one)),
            eager_bytes_per_s: rate(pairs.iter().map(|pair| &pair.other)),
        })
    }

    /// Lets a thread on the destination node touch the pages, if there are several nodes.
    fn migrate_lazily_at_destination(
        &self,
        subject: &MeasuredRegion,
    ) -> Result<MigrationSample, Error> {
        let cpu = match self.plan.nodes.are_distinct() {
            true => {
                let to: Nodemask = [subject.destination()].into_iter().collect();
                let usable = self.machine.usable_cpus()?;
                workers::worker_cpus(&self.machine.topology()?, &to, &usable).first().copied()
            }
            false => None,
        };
        let touch = || {
            if let Some(cpu) = cpu {
                self.machine.pin_current_thread(cpu);
            }
            subject.migrate_lazily(&self.how(1))
        };
        on_own_thread(touch)
    }

    fn stall(&self, subject: &MeasuredRegion, pattern: &Pattern<'_>) -> Result<StallCell, Error> {
        let lanes = self.plan.lanes_max();
        let budget = Budget { stall: Some(self.plan.stall), bytes_per_s: None };
        let load = LoadSpec { writers: 1, readers: 1, seed: self.plan.seed };
        let (pairs, report) = under_load(pattern, load, |reins| {
            self.pairs(
                || {
                    reins.run(true);
                    let sample = subject.migrate(&Migration { budget, ..self.how(lanes) });
                    reins.run(false);
                    sample
                },
                || subject.migrate(&self.how(lanes)),
            )
        })
        .map_err(system("counters of the threads that write and read"))?;
        let (pairs, stalls) = (pairs?, report.stalls.report());
        let budget_ns = u64::try_from(self.plan.stall.as_nanos()).unwrap_or(u64::MAX);
        Ok(StallCell {
            budget_ns,
            stalls,
            kept: stalls.waits.p99_ns <= budget_ns,
            ratio: median(&ratios(&pairs)),
            bytes_per_s: rate(pairs.iter().map(|pair| &pair.one)),
            lanes,
        })
    }

    /// Moves odd parts of the region, some of them lazily, and counts mappings meanwhile.
    fn vmas(&self, subject: &MeasuredRegion, before: usize) -> Result<VmaCount, Error> {
        let count = || own_process::mappings().map_err(system("counting our mappings"));
        let mut peak = before;
        let mut dice = Xorshift64::new(self.plan.seed);
        for part in 0..PARTS {
            let counted =
                move_random_range(subject, self.how(1), &mut dice, part % 4 == 3, &count)?;
            peak = peak.max(counted);
        }
        subject.migrate(&self.how(1))?; // pulls the pages left out
        Ok(VmaCount { before, peak, more: peak.saturating_sub(before) })
    }

    /// Measures against the kernel, between two nodes only: on one node the kernel has nothing to
    /// do.
    pub(super) fn against_kernel(&mut self) -> Result<(), Error> {
        if !self.wants(Extra::Kernel) || !self.plan.nodes.are_distinct() {
            return Ok(());
        }
        let kernel =
            MeasuredRegion::open(self.plan.region_options(self.page, NO_POOL, Mode::Kernel))?;
        let lanes = self.plan.lanes_max();
        let supplies =
            [("recycled", Supply::Recycled), ("one-way", Supply::OneWay), ("auto", Supply::Any)];
        for (name, supply) in supplies {
            let subject = match supply {
                Supply::Recycled | Supply::Any => self.plan.open_recycling(self.page)?,
                Supply::OneWay => {
                    MeasuredRegion::open(self.plan.region_options(self.page, NO_POOL, Mode::Auto))?
                }
            };
            self.record_backend(&subject);
            if !subject.can_move_in_place() {
                return Ok(());
            }
            let pattern = pattern(&subject);
            let pairs = self.pairs(
                || subject.migrate(&Migration { supply, ..self.how(lanes) }),
                || kernel.migrate(&self.how(lanes)),
            )?;
            self.row.findings.add(&pattern.check_all());
            let ratios = ratios(&pairs);
            self.row.kernel.push(KernelCell {
                supply: name,
                lanes,
                ratio: median(&ratios),
                ratios,
                bytes_per_s: rate(pairs.iter().map(|pair| &pair.one)),
                kernel_bytes_per_s: rate(pairs.iter().map(|pair| &pair.other)),
                by_kernel: kernel_share(&pairs),
            });
        }
        Ok(())
    }
}

/// Runs `work` on a thread of its own, which may pin itself to a CPU.
pub(super) fn on_own_thread<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| scope.spawn(work).join())
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Two migrations that are compared.
pub(super) struct SamplePair {
    pub one: MigrationSample,
    pub other: MigrationSample,
}

pub(super) fn ratios(pairs: &[SamplePair]) -> Vec<f64> {
    pairs.iter().map(|pair| pair.one.rate() / pair.other.rate().max(1.0)).collect()
}

pub(super) fn rate<'a>(samples: impl Iterator<Item = &'a MigrationSample>) -> u64 {
    median(&samples.map(MigrationSample::rate).collect::<Vec<_>>()) as u64
}

fn kernel_share(pairs: &[SamplePair]) -> f64 {
    let sum = |pages: fn(&MigrationReport) -> u64| -> u64 {
        pairs.iter().map(|pair| pages(&pair.one.report)).sum()
    };
    sum(|report| report.by_kernel_pages) as f64 / sum(|report| report.account.moved).max(1) as f64
}

/// Moves a part of the region; returns the maximum number of mappings counted meanwhile.
fn move_random_range(
    subject: &MeasuredRegion,
    how: Migration<'_>,
    dice: &mut Xorshift64,
    lazily: bool,
    count: &(impl Fn() -> Result<usize, Error> + Sync),
) -> Result<usize, Error> {
    let region = subject.region();
    let pages = region.bytes() / region.page_bytes();
    let start = dice.below(pages);
    let end = start + 1 + dice.below(pages - start);
    let range = start * region.page_bytes()..end * region.page_bytes();
    let how = Migration { even_if_there: subject.can_move_in_place(), ..how };
    let over = AtomicBool::new(false);
    let over = &over;
    thread::scope(|scope| {
        let counting = scope.spawn(move || {
            let mut most = count()?;
            while !over.load(Relaxed) {
                thread::sleep(COUNTING_INTERVAL);
                most = most.max(count()?);
            }
            Ok(most)
        });
        let moved = match lazily {
            true => region.migrate_lazily(range, &how),
            false => region.migrate(range, subject.destination(), &how),
        };
        over.store(true, Relaxed);
        let most = counting.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        moved?;
        most
    })
}
