//! The series of a benchmark. Each is one number with its samples; it alternates with what it is
//! compared with, so that a drift of the host's speed affects both alike.

mod against_memcpy;
mod extras;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nodeward_linux::{Linux, own_process};
use nodeward_machine::Machine;
use nodeward_model::CpuId;
use nodeward_pager::{Copier, Memcpy, Mode, PageSize, copiers};
use nodeward_policy::workers;
use serde::Serialize;

pub use against_memcpy::{MemcpyCell, StepTimeShares, WriterRate};
pub use extras::{KernelCell, LanesCell, LazyCell, StallCell, VmaCount};

use crate::measured_region::{MeasuredRegionOptions, system};
use crate::{BenchProgress, CopyBuffers, Error, Findings, MeasuredRegion, NodeRoute, Pattern};

/// Minimum number of rounds for a median, after one that does not count.
const ROUNDS_MIN: usize = 3;

/// Number of tries of each copy routine in search of the fastest.
const COPY_TRIES: usize = 2;

/// Pool size of a pager that is to use fresh pages: next to nothing.
const NO_POOL: u64 = 2 << 20;

/// A column of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Column {
    /// Fresh destination pages; no thread touches the region.
    OneWay,
    /// Destination pages kept from earlier migrations, while one thread writes and another reads.
    RecycledWriter,
    /// Destination pages kept from earlier migrations; no thread touches the region.
    RecycledAlone,
}

/// A measurement beside the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Extra {
    /// Lazy migration, pulled by a touching thread, against eager migration.
    Lazy,
    /// Migration under a stall budget.
    Stall,
    /// Many lanes against one.
    Lanes,
    /// Number of additional mappings.
    Vmas,
    /// Against the kernel's own move_pages(2).
    Kernel,
}

/// The plan of a benchmark.
#[derive(Clone, Debug)]
pub struct MeasurePlan {
    /// Size of the region in bytes.
    pub bytes: usize,
    /// Page sizes; one row each.
    pub pages: Vec<PageSize>,
    /// Columns of the table.
    pub columns: Vec<Column>,
    /// Numbers of threads.
    pub lanes: Vec<u32>,
    /// Measurements beside the table.
    pub extras: Vec<Extra>,
    /// Nodes between which pages move.
    pub nodes: NodeRoute,
    /// Approximate time per series.
    pub time: Duration,
    /// The budget of [`Extra::Stall`].
    pub stall: Duration,
    /// Seed of the order of pages that are written and read.
    pub seed: u64,
}

/// The results for one page size.
#[derive(Clone, Debug, Serialize)]
pub struct BenchRow {
    /// `4k` or `2m`.
    pub page: &'static str,
    /// The method by which pages moved: `move`, `remap` or `kernel`; `None` if nothing was
    /// measured.
    pub road: Option<&'static str>,
    /// The reason why no faster method was used, or why nothing was measured.
    pub why: Option<String>,
    /// Name of the pager's copier; `None` if the kernel copies.
    pub copier: Option<&'static str>,
    /// The cells of the table.
    pub cells: Vec<MemcpyCell>,
    /// Lazy against eager migration.
    pub lazy: Option<LazyCell>,
    /// Migration under a stall budget.
    pub stall: Option<StallCell>,
    /// Many lanes against one.
    pub lanes: Option<LanesCell>,
    /// Number of mappings.
    pub vmas: Option<VmaCount>,
    /// Against the kernel: recycled, one-way, and as the pager chooses.
    pub kernel: Vec<KernelCell>,
    /// Findings of all checks of this row.
    pub findings: Findings,
}

impl BenchRow {
    fn empty(page: PageSize) -> Self {
        Self {
            page: page_name(page),
            road: None,
            why: None,
            copier: None,
            cells: Vec::new(),
            lazy: None,
            stall: None,
            lanes: None,
            vmas: None,
            kernel: Vec::new(),
            findings: Findings::default(),
        }
    }
}

/// Returns the name of a page size in output.
pub fn page_name(page: PageSize) -> &'static str {
    match page {
        PageSize::Base => "4k",
        PageSize::Huge => "2m",
    }
}

impl MeasurePlan {
    fn lanes_max(&self) -> u32 {
        self.lanes.iter().copied().max().unwrap_or(1)
    }

    fn wants(&self, extra: Extra) -> bool {
        self.extras.contains(&extra)
    }

    fn region_options(&self, page: PageSize, pool_bytes: u64, mode: Mode) -> MeasuredRegionOptions {
        let (bytes, lanes, nodes) = (self.bytes, self.lanes_max(), self.nodes);
        MeasuredRegionOptions { bytes, page, mode, pool_bytes, lanes, nodes }
    }

    /// Opens a subject with kept pages for the whole region.
    fn open_recycling(&self, page: PageSize) -> Result<MeasuredRegion, Error> {
        let subject =
            MeasuredRegion::open(self.region_options(page, self.bytes as u64, Mode::Auto))?;
        if subject.can_move_in_place() {
            subject.fill_pools()?;
        }
        Ok(subject)
    }

    /// Returns the number of series for one page size.
    fn series(&self) -> usize {
        let kernel = 3 * usize::from(self.wants(Extra::Kernel) && self.nodes.are_distinct());
        let others = [Extra::Lazy, Extra::Stall, Extra::Lanes].map(|extra| self.wants(extra));
        let others = others.into_iter().filter(|&wanted| wanted).count();
        self.columns.len() * self.lanes.len() + others + kernel
    }
}

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

/// One row while it is measured.
struct PageSizeBench<'a> {
    plan: &'a MeasurePlan,
    page: PageSize,
    progress: &'a BenchProgress,
    /// CPUs of the threads that copy or pull; empty for any, on a machine with one node.
    cpus: Vec<CpuId>,
    machine: Linux,
    /// The fastest copier, by number of threads.
    fastest: BTreeMap<u32, Arc<dyn Copier>>,
    row: BenchRow,
}

impl<'a> PageSizeBench<'a> {
    fn new(
        plan: &'a MeasurePlan,
        page: PageSize,
        progress: &'a BenchProgress,
    ) -> Result<Self, Error> {
        let machine = Linux::open();
        let cpus = match plan.nodes.are_distinct() {
            true => {
                let to = [plan.nodes.to].into_iter().collect();
                workers::worker_cpus(&machine.topology()?, &to, &machine.usable_cpus()?)
            }
            false => Vec::new(),
        };
        let (fastest, row) = (BTreeMap::new(), BenchRow::empty(page));
        Ok(Self { plan, page, progress, cpus, machine, fastest, row })
    }

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
        self.against_kernel()
    }

    /// Returns whether the end is requested; then nothing new begins.
    fn is_cancelled(&self) -> bool {
        self.progress.cancel().is_cancelled()
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
                let cell = self.cell(subject, pattern, &mut buffers, &*copier, column, lanes)?;
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

    fn record_backend(&mut self, subject: &MeasuredRegion) {
        self.row.road = Some(subject.pager().backend().name());
        self.row.why = subject.pager().why_not_faster().map(str::to_owned);
        self.row.copier = subject.pager().copier();
    }

    /// Repeats a round until its time is over. The first round does not count: it brings memory,
    /// caches and page tables into a steady state.
    fn rounds<T>(&self, mut round: impl FnMut(usize) -> Result<T, Error>) -> Result<Vec<T>, Error> {
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

fn pattern(subject: &MeasuredRegion) -> Pattern<'_> {
    Pattern::fill(subject.words(), subject.base_page_bytes() as usize)
}
