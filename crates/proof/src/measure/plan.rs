//! The plan of a benchmark: what is measured, and on which regions.

use std::time::Duration;

use nodeward_pager::{Mode, PageSize};
use serde::Serialize;

use crate::measured_region::MeasuredRegionOptions;
use crate::{Error, MeasuredRegion, NodeRoute};

/// Pool size of a pager that is to use fresh pages: next to nothing.
pub const NO_POOL: u64 = 2 << 20;

/// A column of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Column {
    /// Fresh destination pages; no thread touches the region.
    OneWay,
    /// Recycled destination pages, while one thread writes and another reads.
    RecycledWriter,
    /// Recycled destination pages; no thread touches the region.
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
    /// Base pages that arrive as huge pages, against base pages.
    Huge,
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

impl MeasurePlan {
    pub(super) fn lanes_max(&self) -> u32 {
        self.lanes.iter().copied().max().unwrap_or(1)
    }

    pub(super) fn wants(&self, extra: Extra) -> bool {
        self.extras.contains(&extra)
    }

    pub(super) fn region_options(
        &self,
        page: PageSize,
        pool_bytes: u64,
        mode: Mode,
    ) -> MeasuredRegionOptions {
        let (bytes, lanes, nodes) = (self.bytes, self.lanes_max(), self.nodes);
        MeasuredRegionOptions { bytes, page, mode, pool_bytes, lanes, nodes }
    }

    /// Opens a subject with recycled pages for the whole region.
    pub(super) fn open_recycling(&self, page: PageSize) -> Result<MeasuredRegion, Error> {
        let subject =
            MeasuredRegion::open(self.region_options(page, self.bytes as u64, Mode::Auto))?;
        if subject.can_move_in_place() {
            subject.fill_pools()?;
        }
        Ok(subject)
    }

    /// Returns the number of series for one page size.
    pub(super) fn series(&self) -> usize {
        let kernel = 3 * usize::from(self.wants(Extra::Kernel) && self.nodes.are_distinct());
        let others = [Extra::Lazy, Extra::Stall, Extra::Lanes].map(|extra| self.wants(extra));
        let others = others.into_iter().filter(|&wanted| wanted).count();
        let huge = 3 * usize::from(self.wants(Extra::Huge));
        self.columns.len() * self.lanes.len() + others + huge + kernel
    }
}
