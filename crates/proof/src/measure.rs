//! The series of a benchmark: each is one number with its samples, and what it is compared with
//! takes turns with it, so that a host whose speed drifts is fair to both.

mod against_memcpy;
mod others;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nodeward_linux::{Linux, own};
use nodeward_machine::Machine;
use nodeward_model::CpuId;
use nodeward_pager::{Copier, Memcpy, Mode, PageSize, copiers};
use nodeward_policy::workers;
use serde::Serialize;

pub use against_memcpy::{Cell, SpentShares, WriterRate};
pub use others::{KernelCell, LanesCell, LazyCell, StallCell, Vmas};

use crate::subject::{SubjectOptions, system};
use crate::{Buffers, Error, Findings, Nodes, Pattern, Progress, Subject};

/// Fewest rounds that are worth a median, after one that does not count.
const ROUNDS_MIN: usize = 3;

/// How often each copy routine is tried before the fastest is taken.
const TRIES: usize = 2;

/// Kept by a pager that is to use fresh pages: next to nothing.
const NO_POOL: u64 = 2 << 20;

/// A column of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Column {
    /// Fresh destination pages; nobody else touches the region.
    OneWay,
    /// Destination pages kept from earlier migrations, while a thread writes and another reads.
    RecycledWriter,
    /// The same, and nobody else touches the region.
    RecycledAlone,
}

/// What else is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Extra {
    /// Left out and pulled by a thread that touches it, against moved.
    Lazy,
    /// Under a stall budget.
    Stall,
    /// Many lanes against one.
    Lanes,
    /// More mappings than before.
    Vmas,
    /// Against the kernel's own move_pages(2).
    Kernel,
}

/// What is to be measured.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Bytes of the region.
    pub bytes: usize,
    /// A row for each of these.
    pub pages: Vec<PageSize>,
    /// The columns.
    pub columns: Vec<Column>,
    /// Numbers of threads.
    pub lanes: Vec<u32>,
    /// What else.
    pub extras: Vec<Extra>,
    /// Between which nodes.
    pub nodes: Nodes,
    /// How long each series takes, about.
    pub time: Duration,
    /// The budget of [`Extra::Stall`].
    pub stall: Duration,
    /// Decides which pages are written and read when.
    pub seed: u64,
}

/// What was measured of one size of pages.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// `4k` or `2m`.
    pub page: &'static str,
    /// How pages moved: `move`, `remap` or `kernel`; none if nothing was measured.
    pub road: Option<&'static str>,
    /// Why it is no faster one, or why nothing was measured.
    pub why: Option<String>,
    /// What the pager copies with; none if the kernel does.
    pub copier: Option<&'static str>,
    /// The table.
    pub cells: Vec<Cell>,
    /// Lazy against eager.
    pub lazy: Option<LazyCell>,
    /// Under a stall budget.
    pub stall: Option<StallCell>,
    /// Many lanes against one.
    pub lanes: Option<LanesCell>,
    /// Mappings.
    pub vmas: Option<Vmas>,
    /// Against the kernel: recycled, one-way, and as the pager chooses.
    pub kernel: Vec<KernelCell>,
    /// What all checks of this row found.
    pub findings: Findings,
}

impl Row {
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

/// The name of a page size in output.
pub fn page_name(page: PageSize) -> &'static str {
    match page {
        PageSize::Base => "4k",
        PageSize::Huge => "2m",
    }
}

impl Plan {
    fn most_lanes(&self) -> u32 {
        self.lanes.iter().copied().max().unwrap_or(1)
    }

    fn wants(&self, extra: Extra) -> bool {
        self.extras.contains(&extra)
    }

    fn subject(&self, page: PageSize, pool_bytes: u64, mode: Mode) -> SubjectOptions {
        let (bytes, lanes, nodes) = (self.bytes, self.most_lanes(), self.nodes);
        SubjectOptions { bytes, page, mode, pool_bytes, lanes, nodes }
    }

    /// With kept pages for all of the region.
    fn recycling(&self, page: PageSize) -> Result<Subject, Error> {
        let subject = Subject::open(self.subject(page, self.bytes as u64, Mode::Auto))?;
        if subject.moves_what_is_there() {
            subject.fill_pools()?;
        }
        Ok(subject)
    }

    /// How many series there are for one size of pages.
    fn series(&self) -> usize {
        let kernel = 3 * usize::from(self.wants(Extra::Kernel) && self.nodes.differ());
        let others = [Extra::Lazy, Extra::Stall, Extra::Lanes].map(|extra| self.wants(extra));
        let others = others.into_iter().filter(|&wanted| wanted).count();
        self.columns.len() * self.lanes.len() + others + kernel
    }
}

/// Measures all that is planned; a size of pages that cannot be had is a row that says so. A wish
/// to end ends it early, with what was measured until then.
///
/// # Errors
/// If there is no memory for it, or nothing can move here at all.
pub fn measure(plan: &Plan, progress: &Progress) -> Result<Vec<Row>, Error> {
    let total = plan.time * u32::try_from(plan.pages.len() * plan.series()).unwrap_or(u32::MAX);
    progress.expect(u64::try_from(total.as_millis()).unwrap_or(u64::MAX));
    let pages = plan.pages.iter().take_while(|_| !progress.cancel().is_cancelled());
    pages.map(|&page| Bench::new(plan, page, progress)?.row()).collect()
}

/// One row in the making.
struct Bench<'a> {
    plan: &'a Plan,
    page: PageSize,
    progress: &'a Progress,
    /// Where threads run that copy or pull; anywhere on a machine with one node.
    cpus: Vec<CpuId>,
    machine: Linux,
    /// What copies fastest, by number of threads.
    fastest: BTreeMap<u32, Arc<dyn Copier>>,
    row: Row,
}

impl<'a> Bench<'a> {
    fn new(plan: &'a Plan, page: PageSize, progress: &'a Progress) -> Result<Self, Error> {
        let machine = Linux::open();
        let cpus = match plan.nodes.differ() {
            true => {
                let to = [plan.nodes.to].into_iter().collect();
                workers::cpus(&machine.topology()?, &to, &machine.usable_cpus()?)
            }
            false => Vec::new(),
        };
        let (fastest, row) = (BTreeMap::new(), Row::empty(page));
        Ok(Self { plan, page, progress, cpus, machine, fastest, row })
    }

    fn row(mut self) -> Result<Row, Error> {
        match self.fill() {
            Err(Error::Pager(nodeward_pager::Error::NoHugePages { why })) => {
                self.row.why = Some(format!("no huge pages: {why}"));
            }
            other => other?,
        }
        Ok(self.row)
    }

    fn fill(&mut self) -> Result<(), Error> {
        if self.plan.columns.contains(&Column::OneWay) && !self.is_over() {
            self.one_way()?;
        }
        if !self.is_over() {
            self.recycled()?;
        }
        self.against_kernel()
    }

    /// Whether somebody wants it to end; then nothing new is begun.
    fn is_over(&self) -> bool {
        self.progress.cancel().is_cancelled()
    }

    fn one_way(&mut self) -> Result<(), Error> {
        let subject = Subject::open(self.plan.subject(self.page, NO_POOL, Mode::Auto))?;
        self.note(&subject);
        if !subject.moves_what_is_there() {
            return Ok(()); // the kernel's pages are all fresh: the other columns say it
        }
        let pattern = pattern(&subject);
        self.columns(&subject, &pattern, &[Column::OneWay])
    }

    fn recycled(&mut self) -> Result<(), Error> {
        let of_table: Vec<_> =
            self.plan.columns.iter().copied().filter(|&c| c != Column::OneWay).collect();
        let others = [Extra::Lazy, Extra::Stall, Extra::Lanes, Extra::Vmas];
        if of_table.is_empty() && !others.iter().any(|&extra| self.plan.wants(extra)) {
            return Ok(());
        }
        let mappings = own::mappings().map_err(system("counting our mappings"))?;
        let subject = self.plan.recycling(self.page)?;
        self.note(&subject);
        let pattern = pattern(&subject);
        self.columns(&subject, &pattern, &of_table)?;
        self.others(&subject, &pattern, mappings)
    }

    fn columns(
        &mut self,
        subject: &Subject,
        pattern: &Pattern<'_>,
        columns: &[Column],
    ) -> Result<(), Error> {
        if columns.is_empty() {
            return Ok(());
        }
        let Plan { bytes, nodes, .. } = *self.plan;
        let mut buffers = Buffers::new(bytes, self.page, nodes, self.cpus.clone())
            .map_err(system("two buffers of the region's size for memcpy"))?;
        for &lanes in &self.plan.lanes {
            if self.is_over() {
                break;
            }
            let copier = self.fastest(&mut buffers, lanes)?;
            for &column in columns {
                if self.is_over() {
                    break;
                }
                let cell = self.cell(subject, pattern, &mut buffers, &*copier, column, lanes)?;
                self.row.findings.add(&cell.findings);
                self.row.cells.push(cell);
            }
        }
        Ok(())
    }

    /// The copier that is fastest with so many threads, over memory that no cache holds.
    fn fastest(&mut self, buffers: &mut Buffers, lanes: u32) -> Result<Arc<dyn Copier>, Error> {
        if let Some(known) = self.fastest.get(&lanes) {
            return Ok(Arc::clone(known));
        }
        let mut best: (Duration, Arc<dyn Copier>) = (Duration::MAX, Arc::new(Memcpy));
        for _ in 0..TRIES {
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

    fn note(&mut self, subject: &Subject) {
        self.row.road = Some(subject.pager().road().name());
        self.row.why = subject.pager().why_not_faster().map(str::to_owned);
        self.row.copier = subject.pager().copier();
    }

    /// Repeats a round until its time is over. The first does not count: it brings memory, caches
    /// and page tables into the state that the others find.
    fn rounds<T>(&self, mut round: impl FnMut(usize) -> Result<T, Error>) -> Result<Vec<T>, Error> {
        round(0)?;
        let mut done = Vec::new();
        let (began, mut shown) = (Instant::now(), Duration::ZERO);
        while done.len() < ROUNDS_MIN || began.elapsed() < self.plan.time {
            if self.is_over() {
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

fn pattern(subject: &Subject) -> Pattern<'_> {
    Pattern::fill(subject.words(), subject.base_bytes() as usize)
}
