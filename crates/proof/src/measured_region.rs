//! A region that is moved to and fro between two nodes, or, where there is only one, to other pages
//! of the same node.

use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Instant;

use nodeward_linux::Linux;
use nodeward_machine::Machine;
use nodeward_model::{Account, CpuId, NodeId};
use nodeward_pager::{
    Backend, Migration, MigrationReport, Mode, PageSize, Pager, PagerOptions, Placement,
    PoolOptions, Region, RegionOptions, Supply,
};
use nodeward_policy::workers;
use serde::Serialize;

/// The reason why something could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The pager refused.
    #[error(transparent)]
    Pager(#[from] nodeward_pager::Error),
    /// Reading the machine's state failed.
    #[error(transparent)]
    Machine(#[from] nodeward_machine::Error),
    /// Ordinary memory or a counter is not available.
    #[error("{action}: {source}; give less than this with --size, or see the cause")]
    System {
        /// The operation.
        action: &'static str,
        /// Its error.
        source: io::Error,
    },
    /// A page pool refused.
    #[error(transparent)]
    Pool(#[from] nodeward_pager::PoolError),
    /// Another allocator has no memory.
    #[error("no memory for a block of {bytes} bytes; give less with --bytes or --threads")]
    NoBlock {
        /// The size that was requested.
        bytes: u64,
    },
    /// Only the kernel moves pages here, and there is no second node.
    #[error(
        "nothing moves here: there is one node, and without userfaultfd ({reason}) pages move only \
         between nodes; `nodeward doctor` tells what to do"
    )]
    NothingMoves {
        /// The reason why userfaultfd cannot be used.
        reason: String,
    },
    /// All pages stayed where they were.
    #[error(
        "none of {pages} pages moved: {reason}; free memory on the nodes, or give a smaller --size"
    )]
    NothingMoved {
        /// Number of pages that should have moved.
        pages: u64,
        /// The reasons.
        reason: String,
    },
}

/// The nodes between which pages are moved. They may be the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct NodeRoute {
    /// The first node of the region.
    pub from: NodeId,
    /// The first destination.
    pub to: NodeId,
}

impl NodeRoute {
    /// Returns whether pages leave their node at all.
    pub fn are_distinct(self) -> bool {
        self.from != self.to
    }

    /// Returns the CPUs of threads that copy or pull; none, which stands for any, on one node.
    pub(crate) fn worker_cpus(self, machine: &Linux) -> Result<Vec<CpuId>, Error> {
        if !self.are_distinct() {
            return Ok(Vec::new());
        }
        let to = [self.to].into_iter().collect();
        Ok(workers::worker_cpus(&machine.topology()?, &to, &machine.usable_cpus()?))
    }
}

/// Options of a region to be measured.
#[derive(Clone, Copy, Debug)]
pub struct MeasuredRegionOptions {
    /// Size in bytes.
    pub bytes: usize,
    /// Page size.
    pub page: PageSize,
    /// Method that moves its pages.
    pub mode: Mode,
    /// Bytes that the pager keeps on each node for later migrations.
    pub pool_bytes: u64,
    /// Maximum number of threads that move pages at a time.
    pub lanes: u32,
    /// Nodes between which pages move.
    pub nodes: NodeRoute,
}

/// The measurement of one migration.
#[derive(Clone, Debug)]
pub struct MigrationSample {
    /// Bytes that moved.
    pub bytes: u64,
    /// Duration in nanoseconds.
    pub ns: u64,
    /// The pager's report.
    pub report: MigrationReport,
}

impl MigrationSample {
    /// Returns bytes per second.
    pub fn rate(&self) -> f64 {
        self.bytes as f64 / self.ns.max(1) as f64 * 1e9
    }
}

/// A pager with one region, all of it in memory.
#[derive(Debug)]
pub struct MeasuredRegion {
    region: Region,
    pager: Pager,
    nodes: NodeRoute,
    base_page_bytes: u64,
    /// Set when it is at `nodes.to`.
    is_at_destination: AtomicBool,
}

impl MeasuredRegion {
    /// Opens a pager, and commits a region on the first node.
    ///
    /// # Errors
    /// If the pager refuses, or if nothing can move on this machine.
    pub fn open(options: MeasuredRegionOptions) -> Result<Self, Error> {
        let pager = Pager::open(&PagerOptions {
            lanes: Some(options.lanes),
            pool_bytes: Some(options.pool_bytes),
            // The plan decides how much is kept for recycling, even if memory gets short.
            pool: PoolOptions { housekeeper: false, ..PoolOptions::default() },
            kernel_only: options.mode == Mode::Kernel,
            ..PagerOptions::default()
        })?;
        if pager.backend() == Backend::Kernel && !options.nodes.are_distinct() {
            let why = pager.why_not_faster().unwrap_or_default().to_owned();
            return Err(Error::NothingMoves { reason: why });
        }
        let placement = Placement::Node(options.nodes.from);
        let region = pager.reserve(
            options.bytes,
            &RegionOptions {
                page: options.page,
                placement: placement.clone(),
                mode: options.mode,
                free_of_dma: true,
                ..RegionOptions::default()
            },
        )?;
        region.commit(0..region.bytes(), &placement)?;
        let base_bytes = Linux::open().page_bytes();
        Ok(Self {
            region,
            pager,
            nodes: options.nodes,
            base_page_bytes: base_bytes,
            is_at_destination: AtomicBool::new(false),
        })
    }

    /// Returns the content.
    pub fn words(&self) -> &[AtomicU64] {
        self.region.words()
    }

    /// Returns the region.
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// Returns the pager.
    pub fn pager(&self) -> &Pager {
        &self.pager
    }

    /// Returns whether pages move even to the node that they are on. The kernel does not do that.
    pub fn can_move_in_place(&self) -> bool {
        self.pager.backend() != Backend::Kernel
    }

    /// Returns the size of a base page in bytes, the unit that is written and checked at a time.
    pub fn base_page_bytes(&self) -> u64 {
        self.base_page_bytes
    }

    /// Returns the node that the next migration goes to.
    pub fn destination(&self) -> NodeId {
        if self.is_at_destination.load(Relaxed) { self.nodes.from } else { self.nodes.to }
    }

    /// Fills the pools of both nodes with pages for later migrations.
    ///
    /// # Errors
    /// If the pager refuses.
    pub fn fill_pools(&self) -> Result<(), Error> {
        let how = Migration { supply: Supply::OneWay, ..Migration::default() };
        self.migrate(&how)?;
        if self.nodes.are_distinct() {
            self.migrate(&how)?;
        }
        Ok(())
    }

    /// Moves all of it to the other node, or to other pages of the only one.
    ///
    /// # Errors
    /// If the pager refuses, or not a single page moved.
    pub fn migrate(&self, how: &Migration<'_>) -> Result<MigrationSample, Error> {
        let even_if_there = self.can_move_in_place() && !self.nodes.are_distinct();
        let how = Migration { even_if_there, ..*how };
        let report = self.region.migrate(0..self.region.bytes(), self.destination(), &how)?;
        self.is_at_destination.fetch_xor(true, Relaxed);
        self.sample(report)
    }

    /// Leaves all of it out, and touches one page after the other on the calling thread, which
    /// pulls them to its node. The time includes both.
    ///
    /// # Errors
    /// If the pager refuses, or not a single page was left out.
    pub fn migrate_lazily(&self, how: &Migration<'_>) -> Result<MigrationSample, Error> {
        let how = Migration { even_if_there: self.can_move_in_place(), ..*how };
        let began = Instant::now();
        let mut report = self.region.migrate_lazily(0..self.region.bytes(), &how)?;
        for page in self.words().chunks(self.base_page_bytes as usize / size_of::<u64>()) {
            std::hint::black_box(page[0].load(Relaxed));
        }
        report.took_ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.is_at_destination.fetch_xor(true, Relaxed);
        self.sample(report)
    }

    fn sample(&self, report: MigrationReport) -> Result<MigrationSample, Error> {
        let pages = report.account.moved + report.lazy_pages;
        if pages == 0 && !report.cancelled {
            return Err(Error::nothing_moved(&report.account));
        }
        Ok(MigrationSample { bytes: pages * self.base_page_bytes, ns: report.took_ns, report })
    }
}

impl Error {
    pub(crate) fn nothing_moved(account: &Account) -> Self {
        let why = account.skipped.iter().map(|(why, pages)| format!("{pages} {why}"));
        Self::NothingMoved { pages: account.selected(), reason: why.collect::<Vec<_>>().join(", ") }
    }
}

/// Wraps an I/O error with the name of the operation.
pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Error {
    move |source| Error::System { action: what, source }
}
