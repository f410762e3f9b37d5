//! Moves regions by all methods, under threads that write and check, until a given number of bytes
//! has moved.

use std::ops::Range;
use std::time::{Duration, Instant};

use nodeward_model::{Account, NodeId};
use nodeward_pager::{Arrive, Budget, Migration, MigrationReport, Mode, PageSize, Supply};
use serde::Serialize;

use crate::measured_region::{MeasuredRegionOptions, system};
use crate::{
    BenchProgress, Error, Findings, LoadSpec, MeasuredRegion, NodeRoute, Pattern, StallTimes,
    StallsReport, Xorshift64, under_load,
};

/// Number of operations on one region before another is opened.
const OPERATIONS_PER_REGION: usize = 48;

/// The largest range that is moved under a stall budget at a time, because that is slow.
const BUDGETED_BYTES_MAX: usize = 64 << 20;

/// The plan of a soak.
#[derive(Clone, Copy, Debug)]
pub struct SoakPlan {
    /// Bytes to move, in all.
    pub total_bytes: u64,
    /// Size of a region in bytes.
    pub region_bytes: usize,
    /// Maximum number of threads that move pages.
    pub lanes: u32,
    /// Nodes between which pages move.
    pub nodes: NodeRoute,
    /// Seed of all random choices.
    pub seed: u64,
}

/// The result of a soak.
#[derive(Clone, Debug, Serialize)]
pub struct SoakReport {
    /// Seed of all random choices.
    pub seed: u64,
    /// The method by which pages moved.
    #[serde(rename = "road")]
    pub backend: &'static str,
    /// Bytes that moved, without those pulled by touches.
    pub moved_bytes: u64,
    /// Bytes that were left out, to be pulled by touches.
    pub lazy_bytes: u64,
    /// Number of regions, one after the other.
    pub regions: u64,
    /// Number of migrations of ranges.
    pub migrations: u64,
    /// The outcome of pages, summed over all migrations.
    pub account: Account,
    /// Number of pages written, after a check of every word.
    pub pages_written: u64,
    /// Number of pages read and checked.
    pub pages_read: u64,
    /// Waits of the threads.
    pub stalls: StallsReport,
    /// Time from start to end, in nanoseconds.
    pub took_ns: u64,
    /// The reason why huge pages were not tested, if they are not available.
    pub no_huge_pages: Option<String>,
    /// Findings of the checks.
    pub findings: Findings,
}

/// Moves until the total is reached, the end is requested, or something was lost.
///
/// # Errors
/// If the pager refuses, or nothing moves.
pub fn soak(plan: &SoakPlan, progress: &BenchProgress) -> Result<SoakReport, Error> {
    progress.set_total(plan.total_bytes);
    let began = Instant::now();
    let mut soak = Soak {
        plan,
        progress,
        random: Xorshift64::new(plan.seed),
        stalls: StallTimes::default(),
        report: SoakReport {
            seed: plan.seed,
            backend: "",
            moved_bytes: 0,
            lazy_bytes: 0,
            regions: 0,
            migrations: 0,
            account: Account::default(),
            pages_written: 0,
            pages_read: 0,
            stalls: StallsReport::default(),
            took_ns: 0,
            no_huge_pages: None,
            findings: Findings::default(),
        },
    };
    while soak.should_continue() {
        soak.region()?;
    }
    soak.report.stalls = soak.stalls.report();
    soak.report.took_ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
    Ok(soak.report)
}

struct Soak<'a> {
    plan: &'a SoakPlan,
    progress: &'a BenchProgress,
    random: Xorshift64,
    stalls: StallTimes,
    report: SoakReport,
}

impl Soak<'_> {
    fn should_continue(&self) -> bool {
        self.report.moved_bytes < self.plan.total_bytes
            && self.report.findings.is_clean()
            && !self.progress.cancel().is_cancelled()
    }

    /// Opens a region and runs the operations on it.
    fn region(&mut self) -> Result<(), Error> {
        let Some(subject) = self.open()? else { return Ok(()) };
        self.report.regions += 1;
        self.report.backend = subject.pager().backend().name();
        let pattern = Pattern::fill(subject.words(), subject.base_page_bytes() as usize);
        let (writers, readers) = (1 + self.random.below(2), 1 + self.random.below(2));
        let load = LoadSpec { writers, readers, seed: self.random.below(usize::MAX) as u64 };
        let before = self.report.moved_bytes;
        let (done, load) = under_load(&pattern, load, |reins| {
            reins.run(true);
            for _ in 0..OPERATIONS_PER_REGION {
                if self.should_continue() {
                    self.random_operation(&subject)?;
                }
            }
            self.add(&subject, &self.migrate_all(&subject)?);
            Ok::<_, Error>(())
        })
        .map_err(system("counters of the threads that write and read"))?;
        done?;
        self.stalls.add(&load.stalls);
        self.report.findings.add(&load.findings);
        self.report.pages_written += load.pages_written;
        self.report.pages_read += load.pages_read;
        self.report.check_progress(before, self.progress)
    }

    /// Opens a region with random options; `None` if its page size is not available.
    fn open(&mut self) -> Result<Option<MeasuredRegion>, Error> {
        let huge = self.report.no_huge_pages.is_none() && self.random.below(3) == 0;
        let bytes = self.plan.region_bytes;
        let options = MeasuredRegionOptions {
            bytes,
            page: if huge { PageSize::Huge } else { PageSize::Base },
            mode: Mode::Auto,
            pool_bytes: self.random.choose(&[0, 2 << 20, bytes as u64 / 4, bytes as u64]),
            lanes: self.plan.lanes,
            nodes: self.plan.nodes,
        };
        match MeasuredRegion::open(options) {
            Err(Error::Pager(nodeward_pager::Error::NoHugePages { reason: why })) => {
                self.report.no_huge_pages = Some(why);
                Ok(None)
            }
            subject => subject.map(Some),
        }
    }

    fn random_operation(&mut self, subject: &MeasuredRegion) -> Result<(), Error> {
        let by_us = subject.can_move_in_place();
        let region = subject.region();
        let range = self.range(region.bytes() / region.page_bytes(), region.page_bytes());
        let (range, how) = self.random_options(range, by_us);
        let how = Migration { cancel: Some(self.progress.cancel()), ..how };
        let lazy = by_us && self.random.below(6) == 0;
        let exchanged = self.plan.nodes.are_distinct() && self.random.below(6) == 0;
        let report = match (lazy, exchanged) {
            (true, _) => region.migrate_lazily(range, &how)?,
            (false, true) => {
                let middle = (range.start + range.len() / 2) / region.page_bytes();
                let (middle, length) = (middle * region.page_bytes(), range.len() / 2);
                let length = length / region.page_bytes() * region.page_bytes();
                let one = range.start..range.start + length;
                region.exchange(one, middle..middle + length, &how)?
            }
            (false, false) => region.migrate(range, self.node(), &how)?,
        };
        self.add(subject, &report);
        if self.random.below(8) == 0 {
            let range = self.range(region.bytes() / region.page_bytes(), region.page_bytes());
            let _guard = region.pin(range)?;
        }
        Ok(())
    }

    /// Moves all of it to its first node, so that the last check meets no page that was left out.
    fn migrate_all(&self, subject: &MeasuredRegion) -> Result<MigrationReport, Error> {
        let even_if_there = subject.can_move_in_place();
        let how = Migration { even_if_there, ..Migration::default() };
        let region = subject.region();
        Ok(region.migrate(0..region.bytes(), self.plan.nodes.from, &how)?)
    }

    /// Returns a random range; large ones are as frequent as small ones.
    fn range(&mut self, pages: usize, page_bytes: usize) -> Range<usize> {
        let most = pages >> self.random.below(pages.ilog2() as usize + 1);
        let length = 1 + self.random.below(most.max(1));
        let start = self.random.below(pages - length + 1);
        start * page_bytes..(start + length) * page_bytes
    }

    fn node(&mut self) -> NodeId {
        self.random.choose(&[self.plan.nodes.from, self.plan.nodes.to])
    }

    fn random_options(
        &mut self,
        range: Range<usize>,
        by_us: bool,
    ) -> (Range<usize>, Migration<'static>) {
        let lanes = 1 + self.random.below(self.plan.lanes as usize) as u32;
        let stall = match self.random.below(8) {
            0 => Some(Duration::from_micros(250)),
            1 => Some(Duration::from_millis(1)),
            _ => None,
        };
        let longest = if stall.is_some() { BUDGETED_BYTES_MAX } else { usize::MAX };
        let how = Migration {
            budget: Budget { stall, bytes_per_s: None },
            lanes: Some(lanes),
            batch_bytes: self.random.choose(&[None, Some(64 << 10), Some(512 << 10)]),
            supply: match by_us {
                true => self.random.choose(&[Supply::Any, Supply::Any, Supply::OneWay]),
                false => Supply::Any,
            },
            arrive: self.random.choose(&[None, None, Some(Arrive::Huge)]),
            even_if_there: by_us,
            ..Migration::default()
        };
        (range.start..range.end.min(range.start.saturating_add(longest)), how)
    }

    fn add(&mut self, subject: &MeasuredRegion, report: &MigrationReport) {
        let page = subject.base_page_bytes();
        let moved = report.account.moved * page;
        self.report.moved_bytes += moved;
        self.report.lazy_bytes += report.lazy_pages * page;
        self.report.migrations += 1;
        self.report.account.add(&report.account);
        self.progress.advance(moved);
        self.progress.add_moved(moved);
    }
}

impl SoakReport {
    /// Fails if nothing moved in a region, because the soak would never end.
    fn check_progress(&self, before: u64, progress: &BenchProgress) -> Result<(), Error> {
        if self.moved_bytes > before || progress.cancel().is_cancelled() {
            return Ok(());
        }
        Err(Error::nothing_moved(&self.account))
    }
}
