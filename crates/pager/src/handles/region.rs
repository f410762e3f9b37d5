//! The public handle of a region.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use nodeward_machine::Machine;
use nodeward_model::{CpuId, NodeId};
use nodeward_policy::workers;

use super::pager::{PagerShared, UffdBackend};
use super::pin_guard::PinGuard;
use super::placement;
use crate::backend::kernel;
use crate::chunk::{CHUNK_BYTES, PageSize};
use crate::error::{Error, Result, system};
use crate::migration::{
    ChunkTask, JobKind, JobSpec, LaneJob, Migration, MigrationReport, MoveOptions,
};
use crate::page_bits::PageBits;
use crate::region::{ForkRule, Mode, Placement, RegionOptions, RegionShared, residency};
use crate::sections;
use crate::sys::{Advice, AnonMapping};

/// Minimum size of a section.
const SECTION_BYTES_MIN: usize = 32 << 20;

/// Managed memory. Dropping the handle ends migrations, waits for pages in flight and unmaps the
/// memory. Ranges are bytes from the region's start and must be whole pages (whole huge pages in a
/// region of huge pages).
pub struct Region {
    pager: Arc<PagerShared>,
    backing: Backing,
    size: PageSize,
}

enum Backing {
    /// Memory whose pages the pager moves.
    Managed(Arc<RegionShared>),
    /// Memory whose pages only the kernel moves.
    Plain(AnonMapping),
}

impl Region {
    pub(crate) fn reserve(
        pager: &Arc<PagerShared>,
        bytes: usize,
        options: &RegionOptions,
    ) -> Result<Self> {
        placement::check(pager, &options.placement)?;
        let mapping = map_region(bytes, options)?;
        let backing = match pager.uffd_backend.as_ref().filter(|engine| can_manage(engine, options))
        {
            Some(engine) => Backing::Managed(manage(engine, mapping, options)?),
            None => Backing::Plain(mapping),
        };
        Ok(Self { pager: Arc::clone(pager), backing, size: options.page })
    }

    /// Returns the first byte. Any thread may read and write the memory like any other, as long as
    /// the region lives, also while it moves.
    pub fn as_ptr(&self) -> *mut u8 {
        self.mapping().start() as *mut u8
    }

    /// Returns the size in bytes, a multiple of 2 MiB.
    pub fn bytes(&self) -> usize {
        self.mapping().bytes()
    }

    /// Returns the size of one of its pages in bytes.
    pub fn page_bytes(&self) -> usize {
        match self.size {
            PageSize::Base => self.base_page_bytes(),
            PageSize::Huge => CHUNK_BYTES,
        }
    }

    /// Returns the content, for threads that share it.
    pub fn words(&self) -> &[AtomicU64] {
        self.mapping().words()
    }

    /// Brings missing pages into memory, filled with zeros, on the nodes of `placement`. In mode
    /// `Kernel`, pages that mprotect(2) has made unwritable are left out.
    ///
    /// # Errors
    /// For an invalid range or node, or if a node has no room.
    pub fn commit(&self, range: Range<usize>, placement: &Placement) -> Result<()> {
        self.check_range(&range)?;
        placement::check(&self.pager, placement)?;
        match &self.backing {
            Backing::Managed(core) => self.commit_managed(core, range, placement),
            Backing::Plain(mapping) => {
                kernel::commit(mapping, range, placement).map_err(system("madvise"))
            }
        }
    }

    /// Frees the memory of a range; it reads as zero afterwards. Waits for pages in flight.
    ///
    /// # Errors
    /// For an invalid range.
    pub fn discard(&self, range: Range<usize>) -> Result<()> {
        self.check_range(&range)?;
        match &self.backing {
            Backing::Managed(core) => {
                let tasks = self.chunk_tasks(&range, NodeId(0));
                let order =
                    JobSpec::on_one_lane(core, JobKind::Discard, MoveOptions::default(), tasks);
                self.uffd_backend()?.lanes.run(LaneJob::new(order), None, None);
                Ok(())
            }
            Backing::Plain(mapping) => {
                mapping.advise(range, Advice::Discard).map_err(system("madvise"))
            }
        }
    }

    /// Moves a range to a node. The report has the outcome of single pages.
    ///
    /// # Errors
    /// For an invalid range or node, and in a child of fork(2).
    pub fn migrate(
        &self,
        range: Range<usize>,
        to: NodeId,
        how: &Migration<'_>,
    ) -> Result<MigrationReport> {
        self.check_range(&range)?;
        self.check_node(to)?;
        match self.managed() {
            Some(core) => {
                let tasks = self.chunk_tasks(&range, to);
                self.run_job(core, JobKind::Migrate, tasks, Some(to), how)
            }
            None => {
                self.prepare_for_kernel(&range)?;
                self.pager.kernel_backend().migrate(self.addresses(&range), to, how)
            }
        }
    }

    /// Leaves a range out of sight, so that the next thread to touch a granule (256 KiB) pulls it
    /// to its own node. Returns when all of it is out; `MigrationReport::lazy_pages` counts the
    /// pages.
    ///
    /// # Errors
    /// As [`Region::migrate`]; also where UFFDIO_MOVE does not work, and in [`Mode::Kernel`].
    pub fn migrate_lazily(
        &self,
        range: Range<usize>,
        how: &Migration<'_>,
    ) -> Result<MigrationReport> {
        self.check_range(&range)?;
        let core = match &self.backing {
            Backing::Managed(core) if core.context.transfer_method.can_map_slot_pages() => core,
            _ => {
                let why = self.pager.why_not_faster();
                return Err(Error::NeedsUserfaultfd { feature: "lazy migration", reason: why });
            }
        };
        self.managed().ok_or_else(|| Error::BadOption {
            problem: "the kernel moves this region, and leaves nothing out".to_owned(),
            remedy: "set its mode to `Auto` first".to_owned(),
        })?;
        let tasks = self.chunk_tasks(&range, NodeId(0));
        self.run_job(core, JobKind::UnmapLazily, tasks, None, how)
    }

    /// Exchanges the nodes of two ranges of equal length. Pages on the node of the first range go
    /// to that of the second and the other way round, alternately, so that neither node needs room
    /// for more than a few batches. The node of a range is the one that most of its pages are on.
    ///
    /// # Errors
    /// As [`Region::migrate`], and if a range has no pages or the ranges overlap.
    pub fn exchange(
        &self,
        one: Range<usize>,
        other: Range<usize>,
        how: &Migration<'_>,
    ) -> Result<MigrationReport> {
        self.check_range(&one)?;
        self.check_range(&other)?;
        if one.len() != other.len() || (one.start < other.end && other.start < one.end) {
            return Err(Error::BadOption {
                problem: format!("ranges {one:x?} and {other:x?} to exchange"),
                remedy: "name two of equal length that have no page in common".to_owned(),
            });
        }
        let (first, second) = (self.node_of(&one)?, self.node_of(&other)?);
        let there = self.chunk_tasks(&one, second);
        let back = self.chunk_tasks(&other, first);
        let Some(core) = self.managed() else {
            self.prepare_for_kernel(&one)?;
            self.prepare_for_kernel(&other)?;
            let (one, other) = (self.addresses(&one), self.addresses(&other));
            return self.pager.kernel_backend().exchange((one, second), (other, first), how);
        };
        let tasks = interleave(there, back);
        self.run_job(core, JobKind::Migrate, tasks, Some(first), how)
    }

    /// Counts the base pages of a range by node. Pages that are left out (lazily) are not counted.
    ///
    /// # Errors
    /// For an invalid range.
    pub fn residency(&self, range: Range<usize>) -> Result<BTreeMap<NodeId, u64>> {
        self.check_range(&range)?;
        let page_bytes = self.pager.machine.page_bytes();
        residency::count(&*self.pager.myself, self.addresses(&range), page_bytes)
    }

    /// Keeps a range where it is until the guard is dropped. Needed while plain references to its
    /// pages exist (vmsplice(2), MSG_ZEROCOPY, direct I/O of some network file systems). Waits for
    /// pages in flight and brings lazy ones back.
    ///
    /// # Errors
    /// For an invalid range.
    pub fn pin(&self, range: Range<usize>) -> Result<PinGuard<'_>> {
        self.check_range(&range)?;
        let page_bytes = self.base_page_bytes();
        let pages = range.start / page_bytes..range.end.div_ceil(page_bytes);
        let region = match &self.backing {
            Backing::Managed(core) => {
                core.claims.pin(pages.clone());
                // Each chunk is claimed once, so any move of its pages has ended.
                self.uffd_backend()?.return_lazy_pages(core, chunks(&range).collect());
                Some(&**core)
            }
            Backing::Plain(_) => None,
        };
        Ok(PinGuard { pager: &self.pager, region, pages })
    }

    /// Sets the method that moves the pages, from the next call on.
    ///
    /// # Errors
    /// For [`Mode::Auto`] where only the kernel moves pages.
    pub fn set_mode(&self, mode: Mode) -> Result<()> {
        match (&self.backing, mode) {
            (Backing::Managed(core), _) => {
                core.kernel_moves.store(mode == Mode::Kernel, Ordering::Relaxed);
                Ok(())
            }
            (Backing::Plain(_), Mode::Kernel) => Ok(()),
            (Backing::Plain(_), Mode::Auto) => Err(Error::NeedsUserfaultfd {
                feature: "another mode than the kernel's",
                reason: self.pager.why_not_faster(),
            }),
        }
    }

    /// Prepares a range for migration by the kernel.
    fn prepare_for_kernel(&self, range: &Range<usize>) -> Result<()> {
        if let Backing::Managed(core) = &self.backing {
            let tasks = self.chunk_tasks(range, NodeId(0));
            let order = JobSpec::on_one_lane(
                core,
                JobKind::PrepareForKernel,
                MoveOptions::default(),
                tasks,
            );
            self.uffd_backend()?.lanes.run(LaneJob::new(order), None, None);
        }
        Ok(())
    }

    fn mapping(&self) -> &AnonMapping {
        match &self.backing {
            Backing::Managed(core) => &core.mapping,
            Backing::Plain(mapping) => mapping,
        }
    }

    /// Returns the core, if the pager moves the pages.
    fn managed(&self) -> Option<&Arc<RegionShared>> {
        match &self.backing {
            Backing::Managed(core) if !core.kernel_moves.load(Ordering::Relaxed) => Some(core),
            _ => None,
        }
    }

    fn uffd_backend(&self) -> Result<&UffdBackend> {
        self.pager.uffd_backend.as_ref().ok_or(Error::Closing)
    }

    fn base_page_bytes(&self) -> usize {
        self.pager.machine.page_bytes() as usize
    }

    fn check_range(&self, range: &Range<usize>) -> Result<()> {
        self.pager.check_process()?;
        let (start, end, page_bytes) = (range.start, range.end, self.page_bytes());
        if start > end || end > self.bytes() {
            return Err(Error::OutOfRegion { start, end, region_bytes: self.bytes() });
        }
        if start % page_bytes != 0 || end % page_bytes != 0 {
            return Err(Error::Unaligned { start, end, page_bytes });
        }
        Ok(())
    }

    fn check_node(&self, node: NodeId) -> Result<()> {
        placement::check(&self.pager, &Placement::Node(node))
    }

    fn addresses(&self, range: &Range<usize>) -> nodeward_model::Range {
        let start = self.mapping().start();
        nodeward_model::Range::new(start + range.start as u64, start + range.end as u64)
    }

    fn chunk_tasks(&self, range: &Range<usize>, to: NodeId) -> Vec<ChunkTask> {
        let page_bytes = self.base_page_bytes();
        let pages = |chunk: usize| {
            let start = chunk * CHUNK_BYTES;
            let first = range.start.max(start) - start;
            let end = range.end.min(start + CHUNK_BYTES) - start;
            PageBits::of(first / page_bytes..end / page_bytes)
        };
        chunks(range).map(|chunk| ChunkTask { chunk, pages: pages(chunk), to }).collect()
    }

    fn commit_managed(
        &self,
        core: &Arc<RegionShared>,
        range: Range<usize>,
        placement: &Placement,
    ) -> Result<()> {
        let local = || self.pager.topology.node_of_cpu(nodeward_linux::own_process::current_cpu());
        let placement = match placement {
            Placement::Local => &local().map_or(Placement::Local, Placement::Node),
            named => named,
        };
        let tasks = self.chunk_tasks(&range, NodeId(0));
        let mut pages = BTreeMap::new();
        for task in &tasks {
            let node = placement.node_of_chunk(task.chunk);
            *pages.entry(node).or_insert(0) += task.pages.len() as u64;
        }
        for (node, pages) in pages.into_iter().filter_map(|(node, pages)| Some((node?, pages))) {
            core.context.has_room(node, pages).then_some(()).ok_or(Error::NoRoom { node })?;
        }
        let kind = JobKind::Commit(placement.clone());
        self.run_job(core, kind, tasks, None, &Migration::default())?;
        Ok(())
    }

    fn run_job(
        &self,
        core: &Arc<RegionShared>,
        kind: JobKind,
        tasks: Vec<ChunkTask>,
        near: Option<NodeId>,
        how: &Migration<'_>,
    ) -> Result<MigrationReport> {
        let engine = self.uffd_backend()?;
        let batch_bytes = how.batch_bytes.unwrap_or(CHUNK_BYTES as u64);
        let page_bytes = core.context.page_bytes as u64;
        if batch_bytes < page_bytes || batch_bytes > CHUNK_BYTES as u64 {
            return Err(Error::BadOption {
                problem: format!("batches of {batch_bytes} bytes"),
                remedy: format!("{page_bytes} (one page) to {CHUNK_BYTES} (2 MiB) are possible"),
            });
        }
        if how.lanes == Some(0) {
            return Err(Error::BadOption {
                problem: "0 lanes".to_owned(),
                remedy: "ask for at least one, or for as many as pay (none named)".to_owned(),
            });
        }
        core.register()?;
        let pages = tasks.iter().map(|task| task.pages.len() as u64).sum();
        let lanes = engine.lanes_for(pages, how.lanes.unwrap_or(engine.lanes.count()));
        let order = JobSpec {
            region: Arc::clone(core),
            kind,
            options: MoveOptions {
                supply: how.supply,
                batch_pages: (batch_bytes / page_bytes) as usize,
                even_if_there: how.even_if_there,
            },
            lanes: lanes.min(tasks.len().max(1) as u32),
            all_lanes: how.lanes.is_some(),
            cpus: near.map_or_else(Vec::new, |node| self.lane_cpus(engine, node)),
            tasks,
            bytes_per_s: how.budget.bytes_per_s,
            stall_ns: how.budget.stall.map(|stall| stall.as_nanos() as u64),
        };
        let report = engine.lanes.run(LaneJob::new(order), how.progress, how.cancel);
        engine.busy_cpus.restart();
        Ok(report)
    }

    /// Returns the CPUs for lanes that bring pages to a node.
    fn lane_cpus(&self, engine: &UffdBackend, node: NodeId) -> Vec<CpuId> {
        let usable = self.pager.machine.usable_cpus().unwrap_or_default();
        workers::lane_cpus(&self.pager.topology, node, &usable, &engine.busy_cpus.mask())
    }

    /// Returns the node that most pages of a range are on.
    fn node_of(&self, range: &Range<usize>) -> Result<NodeId> {
        let counts = self.residency(range.clone())?;
        let most = counts.into_iter().max_by_key(|&(_, pages)| pages);
        most.map(|(node, _)| node).ok_or_else(|| Error::BadOption {
            problem: format!("range {range:x?}, which has no page in memory"),
            remedy: "commit it first".to_owned(),
        })
    }
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Region")
            .field("start", &self.as_ptr())
            .field("bytes", &self.bytes())
            .field("page", &self.size)
            .finish_non_exhaustive()
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        let Backing::Managed(core) = &self.backing else { return };
        let Some(engine) =
            self.pager.uffd_backend.as_ref().filter(|_| self.pager.is_owner_process())
        else {
            return; // in a child, a thread that does not exist there may hold the desk's lock
        };
        engine.unmanage(core);
    }
}

fn map_region(bytes: usize, options: &RegionOptions) -> Result<AnonMapping> {
    let rounded = bytes.checked_next_multiple_of(CHUNK_BYTES).filter(|&bytes| bytes > 0);
    let bytes = rounded.ok_or_else(|| Error::BadOption {
        problem: format!("a region of {bytes} bytes"),
        remedy: "reserve at least one byte and less than the address space".to_owned(),
    })?;
    let mapping = AnonMapping::reserve(bytes, CHUNK_BYTES).map_err(system("mmap"))?;
    match options.page {
        // Kernels without huge pages reject the advice, and do not need it.
        PageSize::Base => drop(mapping.advise(0..bytes, Advice::BasePages)),
        PageSize::Huge => {
            let why = nodeward_linux::own_process::huge_pages_unavailable();
            why.map_or(Ok(()), |why| Err(Error::NoHugePages { reason: why }))?;
            mapping.advise(0..bytes, Advice::HugePages).map_err(system("madvise"))?;
        }
    }
    if options.fork == ForkRule::DontFork {
        mapping.advise(0..bytes, Advice::DontFork).map_err(system("madvise"))?;
    }
    Ok(mapping)
}

/// Returns whether the pager can move the pages of such a region without harm. With mremap(2) no
/// device may use the pages, and huge pages would come back as base pages.
fn can_manage(engine: &UffdBackend, options: &RegionOptions) -> bool {
    let harmless = options.free_of_dma && options.page == PageSize::Base;
    engine.context.transfer_method.can_map_slot_pages() || harmless
}

fn manage(
    engine: &UffdBackend,
    mapping: AnonMapping,
    options: &RegionOptions,
) -> Result<Arc<RegionShared>> {
    let bytes = mapping.bytes();
    sections::split(&mapping, (bytes / SECTION_BYTES_MIN).clamp(1, sections::MAX));
    mapping.advise(0..bytes, Advice::Discard).map_err(system("madvise"))?;
    let core = Arc::new(RegionShared {
        size: options.page,
        placement: options.placement.clone(),
        kernel_moves: AtomicBool::new(options.mode == Mode::Kernel),
        ..RegionShared::new(&engine.context, mapping)
    });
    engine.manage(&core)?;
    Ok(core)
}

/// Returns the chunks that a range touches.
fn chunks(range: &Range<usize>) -> Range<usize> {
    range.start / CHUNK_BYTES..range.end.div_ceil(CHUNK_BYTES)
}

/// Interleaves two lists of tasks.
fn interleave(one: Vec<ChunkTask>, other: Vec<ChunkTask>) -> Vec<ChunkTask> {
    one.into_iter().zip(other).flat_map(|(one, other)| [one, other]).collect()
}
