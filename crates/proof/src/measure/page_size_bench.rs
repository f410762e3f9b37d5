//! What the measurements with one page size have in common: machine, rounds, and the row that they
//! fill.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nodeward_linux::Linux;
use nodeward_model::CpuId;
use nodeward_pager::{Copier, PageSize};

use super::bench_row::BenchRow;
use super::plan::MeasurePlan;
use crate::{BenchProgress, Error, MeasuredRegion, Pattern};

/// Minimum number of rounds for a median, after one that does not count.
const ROUNDS_MIN: usize = 3;

/// One row while it is measured.
pub struct PageSizeBench<'a> {
    pub plan: &'a MeasurePlan,
    pub page: PageSize,
    pub progress: &'a BenchProgress,
    /// CPUs of the threads that copy or pull; empty for any, on a machine with one node.
    pub cpus: Vec<CpuId>,
    pub machine: Linux,
    /// The fastest copier, by number of threads.
    pub fastest: BTreeMap<u32, Arc<dyn Copier>>,
    pub row: BenchRow,
}

impl<'a> PageSizeBench<'a> {
    pub fn new(
        plan: &'a MeasurePlan,
        page: PageSize,
        progress: &'a BenchProgress,
    ) -> Result<Self, Error> {
        let machine = Linux::open();
        let cpus = plan.nodes.worker_cpus(&machine)?;
        let (fastest, row) = (BTreeMap::new(), BenchRow::empty(page));
        Ok(Self { plan, page, progress, cpus, machine, fastest, row })
    }

    /// Returns whether the end is requested; then nothing new begins.
    pub fn is_cancelled(&self) -> bool {
        self.progress.cancel().is_cancelled()
    }

    pub fn record_backend(&mut self, subject: &MeasuredRegion) {
        self.row.backend = Some(subject.pager().backend().name());
        self.row.why = subject.pager().why_not_faster().map(str::to_owned);
        self.row.copier = subject.pager().copier();
    }

    /// Repeats a round until its time is over. The first round does not count: it brings memory,
    /// caches and page tables into a steady state.
    pub fn rounds<T>(
        &self,
        mut round: impl FnMut(usize) -> Result<T, Error>,
    ) -> Result<Vec<T>, Error> {
        round(0)?;
        let mut done = Vec::new();
        let (began, mut shown) = (Instant::now(), Duration::ZERO);
        while done.len() < ROUNDS_MIN || began.elapsed() < self.plan.time {
            if self.is_cancelled() {
                break;
            }
            done.push(round(done.len() + 1)?);
            let now = began.elapsed().min(self.plan.time);
            self.progress.advance(u64::try_from((now - shown).as_millis()).unwrap_or(0));
            shown = now;
        }
        self.progress
            .advance(u64::try_from(self.plan.time.saturating_sub(shown).as_millis()).unwrap_or(0));
        Ok(done)
    }
}

/// Fills a region with the pattern that checks it.
pub fn pattern(subject: &MeasuredRegion) -> Pattern<'_> {
    Pattern::fill(subject.words(), subject.base_page_bytes() as usize)
}
