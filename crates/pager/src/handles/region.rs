//! The public handle of a region: it checks what the program asks for, and has the backend do it.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use nodeward_machine::Machine;
use nodeward_model::NodeId;

use super::pager_shared::PagerShared;
use super::pin_guard::PinGuard;
use super::placement;
use crate::backend::{self, UffdBackend};
use crate::chunk::{CHUNK_BYTES, PageSize};
use crate::error::{Error, Result, system};
use crate::migration::{
    ChunkTask, JobKind, JobSpec, LaneJob, Migration, MigrationReport, MoveOptions, Progress,
};
use crate::page_bits::PageBits;
use crate::region::{ForkRule, Mode, Placement, RegionOptions, RegionShared, count_by_node};
use crate::sys::{Advice, AnonMapping};

/// Managed memory. Dropping the handle ends migrations, waits for pages in flight and unmaps the
/// memory. Ranges are bytes from the region's start and must be whole pages (whole huge pages in a
/// region of huge pages).
pub struct Region {
    pub(super) pager: Arc<PagerShared>,
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
        let backend = pager.uffd_backend.as_ref().filter(|backend| backend.can_manage(options));
        let backing = match backend {
            Some(backend) => Backing::Managed(backend.add_region(mapping, options)?),
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

    /// Returns the size of a page of the region in bytes: a base page, or 2 MiB in a region of huge
    /// pages.
    pub fn page_bytes(&self) -> usize {
        match self.size {
            PageSize::Base => self.base_page_bytes(),
            PageSize::Huge => CHUNK_BYTES,
        }
    }

    /// Returns the content as words of 8 bytes, which threads may share.
    pub fn words(&self) -> &[AtomicU64] {
        self.mapping().words()
    }

    /// Brings missing pages into memory, filled with zeros, on the nodes of `placement`. In mode
    /// `Kernel`, pages that mprotect(2) has made unwritable are left out.
    ///
    /// # Errors
    /// [`Error::OutOfRegion`] or [`Error::Unaligned`] for the range, [`Error::UnknownNode`],
    /// [`Error::BadOption`] for interleaving over no node, [`Error::NoRoom`] if a node has no room
    /// for its pages, [`Error::Forked`] in a child of fork(2), [`Error::WithinPager`] in a copier.
    pub fn commit(&self, range: Range<usize>, placement: &Placement) -> Result<()> {
        self.check_range(&range)?;
        placement::check(&self.pager, placement)?;
        match &self.backing {
            Backing::Managed(region) => self.commit_managed(region, range, placement),
            Backing::Plain(mapping) => {
                backend::commit(mapping, range, placement).map_err(system("madvise"))
            }
        }
    }

    /// Frees the memory of a range, which reads as zero afterwards. Waits for pages in flight.
    ///
    /// # Errors
    /// Those of [`Region::commit`] for the range and the caller.
    pub fn discard(&self, range: Range<usize>) -> Result<()> {
        self.check_range(&range)?;
        match &self.backing {
            Backing::Managed(region) => {
                let tasks = self.chunk_tasks(&range, NodeId(0));
                self.uffd_backend()?.run_or_hand_over(region, JobKind::Discard, tasks);
                Ok(())
            }
            Backing::Plain(mapping) => {
                mapping.advise(range, Advice::Discard).map_err(system("madvise"))
            }
        }
    }

    /// Moves a range to a node. The report has the outcome of single pages: a page that stayed is
    /// no error.
    ///
    /// # Errors
    /// Those of [`Region::commit`] for the range and the caller, [`Error::UnknownNode`], and
    /// [`Error::BadOption`] for an option of `how` that is out of range or that the kernel's
    /// method lacks.
    pub fn migrate(
        &self,
        range: Range<usize>,
        to: NodeId,
        how: &Migration<'_>,
    ) -> Result<MigrationReport> {
        self.check_range(&range)?;
        self.check_node(to)?;
        match self.managed() {
            Some(region) => {
                let tasks = self.chunk_tasks(&range, to);
                self.run_job(region, JobKind::Migrate, tasks, Some(to), how)
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
    /// Those of [`Region::migrate`]; [`Error::NeedsUserfaultfd`] where pages cannot stay out of
    /// sight; [`Error::BadOption`] in [`Mode::Kernel`].
    pub fn migrate_lazily(
        &self,
        range: Range<usize>,
        how: &Migration<'_>,
    ) -> Result<MigrationReport> {
        self.check_range(&range)?;
        let region = match &self.backing {
            Backing::Managed(region) if region.context.transfer_method.can_map_slot_pages() => {
                region
            }
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
        self.run_job(region, JobKind::UnmapLazily, tasks, None, how)
    }

    /// Exchanges the nodes of two ranges of equal length. Pages on the node of the first range go
    /// to that of the second and the other way round, alternately, so that neither node needs room
    /// for more than a few batches. The node of a range is the one that most of its pages are on.
    ///
    /// # Errors
    /// Those of [`Region::migrate`]; [`Error::BadOption`] if a range has no page in memory, or if
    /// the ranges overlap or differ in length.
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
        let Some(region) = self.managed() else {
            self.prepare_for_kernel(&one)?;
            self.prepare_for_kernel(&other)?;
            let (one, other) = (self.addresses(&one), self.addresses(&other));
            return self.pager.kernel_backend().exchange((one, second), (other, first), how);
        };
        let tasks = interleave(there, back);
        self.run_job(region, JobKind::Migrate, tasks, Some(first), how)
    }

    /// Counts the base pages of a range by node. Pages that are left out (lazily) are not counted.
    ///
    /// # Errors
    /// Those of [`Region::commit`] for the range and the caller; [`Error::Machine`] if the kernel
    /// does not tell.
    pub fn residency(&self, range: Range<usize>) -> Result<BTreeMap<NodeId, u64>> {
        self.check_range(&range)?;
        let page_bytes = self.pager.machine.page_bytes();
        count_by_node(&*self.pager.myself, self.addresses(&range), page_bytes)
    }

    /// Keeps a range where it is until the guard is dropped. Needed while plain references to its
    /// pages exist (vmsplice(2), MSG_ZEROCOPY, direct I/O of some network file systems). Waits for
    /// pages in flight and brings lazy ones back.
    ///
    /// # Errors
    /// Those of [`Region::commit`] for the range and the caller.
    pub fn pin(&self, range: Range<usize>) -> Result<PinGuard<'_>> {
        self.check_range(&range)?;
        let page_bytes = self.base_page_bytes();
        let pages = range.start / page_bytes..range.end.div_ceil(page_bytes);
        let Backing::Managed(region) = &self.backing else {
            return Ok(PinGuard { pager: &self.pager, pin: None, pages });
        };
        let backend = self.uffd_backend()?;
        let pin = region.claims.pin(&pages);
        if !pin.is_settled {
            backend.settle(region, chunks(&range));
        }
        Ok(PinGuard { pager: &self.pager, pin: Some((region, pin)), pages })
    }

    /// Sets the method that moves the pages, from the next call on.
    ///
    /// # Errors
    /// [`Error::NeedsUserfaultfd`] for [`Mode::Auto`] where only the kernel moves pages.
    pub fn set_mode(&self, mode: Mode) -> Result<()> {
        match (&self.backing, mode) {
            (Backing::Managed(region), _) => {
                region.kernel_moves.store(mode == Mode::Kernel, Ordering::Relaxed);
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
    pub(super) fn prepare_for_kernel(&self, range: &Range<usize>) -> Result<()> {
        if let Backing::Managed(region) = &self.backing {
            let tasks = self.chunk_tasks(range, NodeId(0));
            self.uffd_backend()?.run_or_hand_over(region, JobKind::PrepareForKernel, tasks);
        }
        Ok(())
    }

    fn mapping(&self) -> &AnonMapping {
        match &self.backing {
            Backing::Managed(region) => &region.mapping,
            Backing::Plain(mapping) => mapping,
        }
    }

    /// Returns the shared state, if the pager moves the pages.
    pub(crate) fn managed(&self) -> Option<&Arc<RegionShared>> {
        match &self.backing {
            Backing::Managed(region) if !region.kernel_moves.load(Ordering::Relaxed) => {
                Some(region)
            }
            _ => None,
        }
    }

    pub(super) fn uffd_backend(&self) -> Result<&UffdBackend> {
        self.pager.uffd_backend.as_ref().ok_or(Error::Closing)
    }

    pub(super) fn base_page_bytes(&self) -> usize {
        self.pager.machine.page_bytes() as usize
    }

    pub(super) fn check_range(&self, range: &Range<usize>) -> Result<()> {
        self.pager.check_caller()?;
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
        region: &Arc<RegionShared>,
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
        let is_small = self.uffd_backend()?.is_small(&tasks);
        for (node, pages) in pages.into_iter().filter_map(|(node, pages)| Some((node?, pages))) {
            let context = &region.context;
            let has_room = is_small && context.reserve_few(node, pages as usize);
            if !has_room && !context.has_room(node, pages) {
                return Err(Error::NoRoom { node });
            }
        }
        let kind = JobKind::Commit(placement.clone());
        self.run_job(region, kind, tasks, None, &Migration::default())?;
        Ok(())
    }

    fn run_job(
        &self,
        region: &Arc<RegionShared>,
        kind: JobKind,
        mut tasks: Vec<ChunkTask>,
        near: Option<NodeId>,
        how: &Migration<'_>,
    ) -> Result<MigrationReport> {
        let backend = self.uffd_backend()?;
        let options = how.move_options(region.context.page_bytes, Some(region))?;
        let is_here = kind.may_run_on_caller() && how.is_plain() && backend.is_small(&tasks);
        let (mut report, done) = match is_here {
            true => backend.run_here(region, (&kind, &options), &tasks),
            false => Default::default(),
        };
        let rest = tasks.split_off(done);
        let done_bytes = total_bytes(&tasks, region.context.page_bytes);
        let tell = |rest: Progress| {
            let examined_bytes = rest.examined_bytes + done_bytes;
            let total_bytes = rest.total_bytes + done_bytes;
            how.progress.inspect(|progress| progress(Progress { examined_bytes, total_bytes }));
        };
        if rest.is_empty() && is_here {
            tell(Progress::default());
            return Ok(report);
        }
        let progress = how.progress.map(|_| &tell as &dyn Fn(Progress));
        let how = Migration { progress, ..*how };
        let by_lanes = self.run_on_lanes(region, (kind, options), rest, near, &how)?;
        report.add_later(&by_lanes);
        Ok(report)
    }

    fn run_on_lanes(
        &self,
        region: &Arc<RegionShared>,
        (kind, options): (JobKind, MoveOptions),
        tasks: Vec<ChunkTask>,
        near: Option<NodeId>,
        how: &Migration<'_>,
    ) -> Result<MigrationReport> {
        let backend = self.uffd_backend()?;
        region.register()?;
        let pages = tasks.iter().map(|task| task.pages.len() as u64).sum();
        let most = match backend.is_small(&tasks) {
            true => 1, // which CPUs are busy is not worth a look
            false => backend.lanes.count(),
        };
        let lanes = backend.lanes_for(pages, how.lanes.unwrap_or(most));
        let lanes = lanes.min(tasks.len().max(1) as u32);
        let near = near.filter(|_| lanes > 1);
        let order = JobSpec {
            region: Arc::clone(region),
            kind,
            options,
            lanes,
            all_lanes: how.lanes.is_some(),
            cpus: near.map_or_else(Vec::new, |node| backend.lane_cpus(node)),
            tasks,
        };
        let _work = (lanes > 1).then(|| backend.busy_cpus.begin_job());
        Ok(backend.lanes.run(LaneJob::new(order, how.cancel), how.progress))
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
        let Backing::Managed(region) = &self.backing else { return };
        // In a child, a thread that does not exist there may hold the lock of the claims.
        let Some(backend) = self.pager.own_uffd_backend() else { return };
        backend.unmanage(region);
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

/// Returns the chunks that a range touches.
fn chunks(range: &Range<usize>) -> Range<usize> {
    range.start / CHUNK_BYTES..range.end.div_ceil(CHUNK_BYTES)
}

/// Returns the bytes of all pages of some tasks.
fn total_bytes(tasks: &[ChunkTask], page_bytes: usize) -> u64 {
    tasks.iter().map(|task| (task.pages.len() * page_bytes) as u64).sum()
}

/// Interleaves two lists of tasks.
fn interleave(one: Vec<ChunkTask>, other: Vec<ChunkTask>) -> Vec<ChunkTask> {
    one.into_iter().zip(other).flat_map(|(one, other)| [one, other]).collect()
}
