//! The series of a benchmark. Each is one number with its samples; it alternates with what it is
//! compared with, so that a drift of the host's speed affects both alike.

mod against_memcpy;
mod bare_threads;
mod bench_row;
mod extras;
mod huge_arrival;
mod page_size_bench;
mod plan;

use std::sync::Arc;
use std::time::Duration;

use nodeward_linux::own_process;
use nodeward_pager::{Copier, Memcpy, Mode, copiers};

pub(crate) use bare_threads::{BarePass, BareThreads};
pub use bench_row::{
    ArrivalRatio, BareRatio, BenchRow, HugeArrivalCell, KernelCell, LanesCell, LazyCell,
    MemcpyCell, StallCell, StepTimeShares, VmaCount, WriterRate, page_name,
};
pub use plan::{Column, Extra, MeasurePlan};

use crate::measured_region::system;
use crate::{BenchProgress, CopyBuffers, Error, MeasuredRegion, Pattern};
use against_memcpy::ReferenceCopies;
use page_size_bench::{PageSizeBench, pattern};
use plan::NO_POOL;

/// Number of tries of each copy routine in search of the fastest.
const COPY_TRIES: usize = 2;

/// Measures everything in the plan. A page size that is not available yields a row that says so. A
/// request to cancel ends it early, with the results so far.
///
/// # Errors
/// If there is no memory for it, or nothing can move on this machine.
pub fn measure(plan: &MeasurePlan, progress: &BenchProgress) -> Result<Vec<BenchRow>, Error> {
    let total = plan.time * u32::try_from(plan.pages.len() * plan.series()).unwrap_or(u32::MAX);
    progress.set_total(u64::try_from(total.as_millis()).unwrap_or(u64::MAX));
    let pages = plan.pages.iter().take_while(|_| !progress.cancel().is_cancelled());
    pages.map(|&page| PageSizeBench::new(plan, page, progress)?.row()).collect()
}

impl PageSizeBench<'_> {
    fn row(mut self) -> Result<BenchRow, Error> {
        match self.fill() {
            Err(Error::Pager(nodeward_pager::Error::NoHugePages { reason: why })) => {
                self.row.why = Some(format!("no huge pages: {why}"));
            }
            other => other?,
        }
        Ok(self.row)
    }

    fn fill(&mut self) -> Result<(), Error> {
        if self.plan.columns.contains(&Column::OneWay) && !self.is_cancelled() {
            self.one_way()?;
        }
        if !self.is_cancelled() {
            self.recycled()?;
        }
        self.huge_arrival()?;
        self.against_kernel()
    }

    fn one_way(&mut self) -> Result<(), Error> {
        let subject =
            MeasuredRegion::open(self.plan.region_options(self.page, NO_POOL, Mode::Auto))?;
        self.record_backend(&subject);
        if !subject.can_move_in_place() {
            return Ok(()); // all pages of the kernel are fresh: the other columns cover it
        }
        let pattern = pattern(&subject);
        self.measure_cells(&subject, &pattern, &[Column::OneWay])
    }

    fn recycled(&mut self) -> Result<(), Error> {
        let of_table: Vec<_> =
            self.plan.columns.iter().copied().filter(|&c| c != Column::OneWay).collect();
        let others = [Extra::Lazy, Extra::Stall, Extra::Lanes, Extra::Vmas];
        if of_table.is_empty() && !others.iter().any(|&extra| self.plan.wants(extra)) {
            return Ok(());
        }
        let mappings = own_process::mappings().map_err(system("counting our mappings"))?;
        let subject = self.plan.open_recycling(self.page)?;
        self.record_backend(&subject);
        let pattern = pattern(&subject);
        self.measure_cells(&subject, &pattern, &of_table)?;
        self.measure_extras(&subject, &pattern, mappings)
    }

    fn measure_cells(
        &mut self,
        subject: &MeasuredRegion,
        pattern: &Pattern<'_>,
        columns: &[Column],
    ) -> Result<(), Error> {
        if columns.is_empty() {
            return Ok(());
        }
        let MeasurePlan { bytes, nodes, .. } = *self.plan;
        let mut buffers = CopyBuffers::new(bytes, self.page, nodes, self.cpus.clone())
            .map_err(system("two buffers of the region's size for memcpy"))?;
        for &lanes in &self.plan.lanes {
            if self.is_cancelled() {
                break;
            }
            let copier = self.fastest(&mut buffers, lanes)?;
            for &column in columns {
                if self.is_cancelled() {
                    break;
                }
                let bare = self.bare_threads(subject, lanes)?;
                let mut copies =
                    ReferenceCopies { buffers: &mut buffers, fastest: &*copier, lanes, bare };
                let cell = self.cell(subject, pattern, &mut copies, column)?;
                self.row.findings.add(&cell.findings);
                self.row.cells.push(cell);
            }
        }
        Ok(())
    }

    /// Returns the fastest copier with this many threads, on memory that is not in the caches.
    fn fastest(&mut self, buffers: &mut CopyBuffers, lanes: u32) -> Result<Arc<dyn Copier>, Error> {
        if let Some(known) = self.fastest.get(&lanes) {
            return Ok(Arc::clone(known));
        }
        let mut best: (Duration, Arc<dyn Copier>) = (Duration::MAX, Arc::new(Memcpy));
        for _ in 0..COPY_TRIES {
            for copier in copiers() {
                let took = buffers.copy(&*copier, lanes as usize).map_err(system("memcpy"))?;
                if took < best.0 {
                    best = (took, copier);
                }
            }
        }
        self.fastest.insert(lanes, Arc::clone(&best.1));
        Ok(best.1)
    }
}
