//! The results of a benchmark: a row for each page size, with its cells.

use nodeward_pager::PageSize;
use serde::Serialize;

use super::plan::Column;
use crate::{Findings, StallsReport};

/// The results for one page size.
#[derive(Clone, Debug, Serialize)]
pub struct BenchRow {
    /// `4k` or `2m`.
    pub page: &'static str,
    /// The method by which pages moved: `move`, `remap` or `kernel`; `None` if nothing was
    /// measured.
    #[serde(rename = "road")]
    pub backend: Option<&'static str>,
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
    /// Base pages that arrive as huge pages.
    pub huge_arrival: Option<HugeArrivalCell>,
    /// Against the kernel: recycled, one-way, and as the pager chooses.
    pub kernel: Vec<KernelCell>,
    /// Findings of all checks of this row.
    pub findings: Findings,
}

impl BenchRow {
    pub(super) fn empty(page: PageSize) -> Self {
        Self {
            page: page_name(page),
            backend: None,
            why: None,
            copier: None,
            cells: Vec::new(),
            lazy: None,
            stall: None,
            lanes: None,
            vmas: None,
            huge_arrival: None,
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

/// One cell of the table.
#[derive(Clone, Debug, Serialize)]
pub struct MemcpyCell {
    /// Its column.
    pub column: Column,
    /// Threads that should move pages, and threads that copied.
    pub lanes: u32,
    /// Minimum number of threads that took part in a migration.
    pub lanes_at_work: u32,
    /// Median ratio of speed to that of memcpy(3) with the same number of threads and no other
    /// load.
    pub ratio: f64,
    /// The ratio of each round.
    pub ratios: Vec<f64>,
    /// Median ratio to the fastest known copy.
    pub ratio_fastest: f64,
    /// Median ratio to that copy with the same threads running beside it.
    pub ratio_beside: Option<f64>,
    /// Name of the fastest routine.
    pub fastest: &'static str,
    /// The kernel's calls alone; `None` where they are not those that moved pages.
    pub bare: Option<BareRatio>,
    /// Median speed of memcpy(3).
    pub memcpy_bytes_per_s: u64,
    /// Median speed of the fastest copy.
    pub fastest_bytes_per_s: u64,
    /// Median speed of migrations.
    pub bytes_per_s: u64,
    /// Bytes moved, in all.
    pub moved_bytes: u64,
    /// Bytes that stayed where they were.
    pub left_bytes: u64,
    /// Distribution of the time.
    pub spent: StepTimeShares,
    /// The longest time that pages were out of sight.
    pub longest_hold_ns: u64,
    /// Speeds of the writing thread.
    pub writer: Option<WriterRate>,
    /// Waits of the threads.
    pub stalls: Option<StallsReport>,
    /// Findings of the checks.
    pub findings: Findings,
}

/// A migration beside the kernel's calls that it cannot do without, made by as many threads on
/// memory of their own: UFFDIO_MOVE, UFFDIO_COPY and MADV_DONTNEED to fresh pages; two UFFDIO_MOVE
/// and a copy to kept ones.
#[derive(Clone, Debug, Serialize)]
pub struct BareRatio {
    /// Median time of a migration as a multiple of that of the calls.
    pub ratio: f64,
    /// The ratio of each round.
    pub ratios: Vec<f64>,
    /// Median speed of the calls.
    pub bytes_per_s: u64,
}

/// Shares of the time of all lanes, which sum to 1.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct StepTimeShares {
    /// Taking pages out of sight.
    pub unmap: f64,
    /// Copying.
    pub copy: f64,
    /// Bringing pages into sight.
    pub map: f64,
    /// Getting destination pages and giving back emptied ones.
    pub supply: f64,
    /// Everything else.
    pub rest: f64,
}

/// The speed of the writing thread beside migrations.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct WriterRate {
    /// Median of pages per second while nothing migrates.
    pub alone_pages_per_s: f64,
    /// Median of pages per second beside migrations.
    pub moving_pages_per_s: f64,
    /// Median of the ratios of each round.
    pub share: f64,
}

/// Lazy migration, pulled by one thread that touches everything, against migration by one lane.
#[derive(Clone, Debug, Serialize)]
pub struct LazyCell {
    /// Median ratio of speed to the eager one.
    pub ratio: f64,
    /// The ratio of each round.
    pub ratios: Vec<f64>,
    /// Bytes per second, until the last page was touched.
    pub bytes_per_s: u64,
    /// Bytes per second of the eager migrations.
    pub eager_bytes_per_s: u64,
}

/// Base pages that arrive as huge pages, against the same ones that arrive as fresh base pages.
#[derive(Clone, Debug, Serialize)]
pub struct HugeArrivalCell {
    /// In huge pages that earlier migrations emptied.
    pub kept: ArrivalRatio,
    /// In huge pages that are fresh from the kernel.
    pub fresh: ArrivalRatio,
    /// Where the process gets no huge pages.
    pub without: ArrivalRatio,
}

/// Migrations that ask for huge pages, against those that do not.
#[derive(Clone, Debug, Serialize)]
pub struct ArrivalRatio {
    /// Median ratio of speed.
    pub ratio: f64,
    /// The ratio of each round.
    pub ratios: Vec<f64>,
    /// Blocks of 2 MiB that arrived as huge pages, in all rounds.
    pub arrived: u64,
    /// Blocks of 2 MiB that did not.
    pub fell_back: u64,
    /// Median of bytes per second.
    pub bytes_per_s: u64,
    /// Bytes per second of those that arrived as base pages.
    pub one_way_bytes_per_s: u64,
}

impl ArrivalRatio {
    /// Returns the median ratio, if all pages arrived as huge pages.
    pub fn of_huge_pages(&self) -> Option<f64> {
        (self.arrived > 0 && self.fell_back == 0).then_some(self.ratio)
    }
}

/// Migrations with a bound on waits.
#[derive(Clone, Debug, Serialize)]
pub struct StallCell {
    /// The bound on a wait.
    pub budget_ns: u64,
    /// Durations of touches.
    pub stalls: StallsReport,
    /// True if 99 of 100 waits were within the budget.
    pub kept: bool,
    /// Median ratio of speed to that without a budget.
    pub ratio: f64,
    /// Median of bytes per second.
    pub bytes_per_s: u64,
    /// Number of threads that moved pages.
    pub lanes: u32,
}

/// Many lanes against one.
#[derive(Clone, Debug, Serialize)]
pub struct LanesCell {
    /// Number of lanes.
    pub lanes: u32,
    /// Median ratio of speed to that of one lane.
    pub ratio: f64,
    /// The ratio of each round.
    pub ratios: Vec<f64>,
}

/// Number of mappings of this process.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct VmaCount {
    /// Before the pager and its region existed.
    pub before: usize,
    /// The maximum while parts of the region moved.
    pub peak: usize,
    /// The difference.
    pub more: usize,
}

/// Against the kernel's move_pages(2), with the same number of threads, between the same nodes.
#[derive(Clone, Debug, Serialize)]
pub struct KernelCell {
    /// `recycled`, `one-way`, or `auto`: the pager chooses, including the kernel.
    pub supply: &'static str,
    /// Number of threads.
    pub lanes: u32,
    /// Median ratio of speed to that of the kernel.
    pub ratio: f64,
    /// The ratio of each round.
    pub ratios: Vec<f64>,
    /// Median of bytes per second.
    pub bytes_per_s: u64,
    /// Median of bytes per second of the kernel.
    pub kernel_bytes_per_s: u64,
    /// Share of the pages that the pager left to the kernel.
    pub by_kernel: f64,
}
