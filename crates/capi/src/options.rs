//! The options that C sets, in structs of which zero is the default, and their meaning in Rust.

use std::ffi::c_void;
use std::mem::offset_of;
use std::time::Duration;

use nodeward::{
    Arrive, Budget, Error, ForkRule, Id, Migration, Mode, NodeId, Nodemask, PageSize, PagerOptions,
    Placement, PoolOptions, Progress, RegionOptions, Supply, TunerKind,
};

use crate::cancel::NodewardCancel;
use crate::pointers;
use crate::sized::{self, Versioned};
use crate::status::CallFailure;

/// Of struct nodeward_pager_options: use only move_pages(2), which works everywhere.
pub const NODEWARD_PAGER_KERNEL_ONLY: u32 = 1;
/// Of struct nodeward_pager_options: use userfaultfd also where it handles faults of user code
/// only. The program promises to pass managed memory to no system call while pages move: read(2),
/// write(2) and all others would fail with EFAULT.
pub const NODEWARD_PAGER_ASSUME_NO_SYSCALLS: u32 = 2;
/// Of struct nodeward_pager_options: keep no pages from earlier migrations.
pub const NODEWARD_PAGER_NO_POOL: u32 = 4;
/// Of struct nodeward_region_options: no device and no direct I/O ever uses this memory while it
/// moves. Linux before 6.8 cannot detect that; there only such regions use the method "remap".
pub const NODEWARD_REGION_FREE_OF_DMA: u32 = 1;
/// Of struct nodeward_migration: also move pages that are on the destination already, for
/// measurements. Not with the method "kernel".
pub const NODEWARD_MIGRATION_EVEN_IF_THERE: u32 = 1;
/// Of struct nodeward_pool_options: no lists of CPUs; each call takes the lock of its node's zone.
pub const NODEWARD_POOL_NO_LISTS: u32 = 1;
/// Of struct nodeward_pool_options: no thread looks after the pool. Call nodeward_pool_tick() once
/// in a period.
pub const NODEWARD_POOL_NO_HOUSEKEEPER: u32 = 2;

/// The pages that a region or a pool is made of.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub enum NodewardPage {
    /// Base pages, 4 KiB on most machines.
    Base = 0,
    /// Transparent huge pages of 2 MiB, as far as the kernel has them.
    Huge = 1,
}

/// The mover of the pages of a region.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub enum NodewardMode {
    /// The fastest method that works here.
    Auto = 0,
    /// The kernel, by move_pages(2): slower, but it detects plain references too.
    Kernel = 1,
}

/// The fate of a region in a child of fork(2).
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub enum NodewardFork {
    /// The child has a copy. fork(2) waits until pages in flight are mapped again.
    Copy = 0,
    /// The child does not have it (MADV_DONTFORK).
    Dont = 1,
}

/// The destination pages of a migration.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub enum NodewardSupply {
    /// Recycled pages (those that earlier migrations emptied) while there are some, then fresh
    /// ones.
    Any = 0,
    /// Only pages that earlier migrations emptied.
    Recycled = 1,
    /// Only fresh pages.
    OneWay = 2,
}

/// The size of the pages at the destination of a migration.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub enum NodewardArrive {
    /// What the region has. For a region: NODEWARD_ARRIVE_AS_THEY_LEAVE.
    Default = 0,
    /// Base pages arrive as base pages, and huge pages as huge pages.
    AsTheyLeave = 1,
    /// The base pages of each 2 MiB, aligned, arrive together as one huge page where that can be;
    /// elsewhere as base pages, counted in `huge_fallbacks`. Until the migration ends, nothing else
    /// may be mapped over a part of its range: what is written there meanwhile may be lost.
    Huge = 2,
}

/// The rule that sets the length of a pool's per-CPU lists.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub enum NodewardTuning {
    /// The library chooses, now NODEWARD_TUNING_DEPTH.
    Default = 0,
    /// It is always `high_default`, as in Linux 5.14 to 6.6.
    Fixed = 1,
    /// By how much is allocated and freed in turn.
    Depth = 2,
    /// By what had to be taken from the zone, as in Linux 6.7.
    Events = 3,
}

/// Options of a pager. Zero is the default of every field but `size`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct NodewardPagerOptions {
    /// sizeof(struct nodeward_pager_options)
    pub size: usize,
    /// Bytes kept on each node from earlier migrations, as destinations of later ones. 0: 64 MiB.
    pub pool_bytes: u64,
    /// Threads that migrate pages. 0: one for each usable physical core, 16 at most.
    pub lanes: u32,
    /// NODEWARD_PAGER_KERNEL_ONLY, NODEWARD_PAGER_ASSUME_NO_SYSCALLS, NODEWARD_PAGER_NO_POOL
    pub flags: u32,
}

/// Options of a region. Zero is the default of every field but `size`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct NodewardRegionOptions {
    /// sizeof(struct nodeward_region_options)
    pub size: usize,
    /// One of enum nodeward_page.
    pub page: u32,
    /// One of enum nodeward_mode.
    pub mode: u32,
    /// One of enum nodeward_fork.
    pub fork: u32,
    /// NODEWARD_REGION_FREE_OF_DMA
    pub flags: u32,
    /// Nodes of memory that is touched for the first time, 2 MiB on each in turn. Without any: the
    /// node of the thread that touches it.
    pub nodes: *const u32,
    /// The number of `nodes`.
    pub node_count: usize,
    /// One of enum nodeward_arrive, for migrations that do not say.
    pub arrive: u64,
}

/// Called by a migration on the thread that requested it, every 50 ms and at the end, with the
/// bytes that are done (moved or not) and all bytes. It may touch managed memory and call all
/// functions of this header. It must return (no longjmp, no exception).
pub type NodewardProgress =
    Option<unsafe extern "C" fn(user: *mut c_void, examined_bytes: u64, total_bytes: u64)>;

/// Options of a migration. Zero is the default of every field but `size`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct NodewardMigration {
    /// sizeof(struct nodeward_migration)
    pub size: usize,
    /// The most bytes a second. 0: no limit.
    pub bytes_per_s: u64,
    /// 99 of 100 touches of a page in flight wait no longer than this. 0: no limit.
    pub stall_ns: u64,
    /// Bytes in flight per lane, at most 2 MiB. 0: 2 MiB.
    pub batch_bytes: u64,
    /// The most lanes. 0: as many as pay.
    pub lanes: u32,
    /// One of enum nodeward_supply.
    pub supply: u32,
    /// NODEWARD_MIGRATION_EVEN_IF_THERE
    pub flags: u64,
    /// Called while it runs, or NULL.
    pub progress: NodewardProgress,
    /// The first argument of `progress`.
    pub user: *mut c_void,
    /// Ends the migration early, or NULL.
    pub cancel: *const NodewardCancel,
    /// One of enum nodeward_arrive.
    pub arrive: u64,
}

/// Options of a pool. Zero is the default of every field but `size`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct NodewardPoolOptions {
    /// sizeof(struct nodeward_pool_options)
    pub size: usize,
    /// The most bytes of the pool on each node. Lists hold an eighth of it at most, and an eighth
    /// stays free at most. 0: all memory of the node.
    pub zone_bytes: u64,
    /// Free bytes that stay on each node when nobody allocates.
    pub keep_bytes: u64,
    /// One of enum nodeward_tuning.
    pub tuning: u32,
    /// One of enum nodeward_page.
    pub page: u32,
    /// Base pages that go between a list and its zone at a time, at least. 0: 63, the kernel's.
    pub batch: u32,
    /// The most base pages of a list until tuning raises it. 0: four batches.
    pub high_default: u32,
    /// The period of tuning in milliseconds. 0: a second.
    pub period_ms: u32,
    /// NODEWARD_POOL_NO_LISTS, NODEWARD_POOL_NO_HOUSEKEEPER
    pub flags: u32,
}

// SAFETY: numbers only, without padding, size first; zeros are valid.
unsafe impl Versioned for NodewardPoolOptions {
    const NAME: &'static str = "nodeward_pool_options";
    const FIRST_SIZE: usize = offset_of!(Self, flags) + size_of::<u32>();
}

// SAFETY: numbers only, without padding, size first; zeros are valid.
unsafe impl Versioned for NodewardPagerOptions {
    const NAME: &'static str = "nodeward_pager_options";
    const FIRST_SIZE: usize = offset_of!(Self, flags) + size_of::<u32>();
}

// SAFETY: numbers and pointers only, without padding, size first; zeros are valid.
unsafe impl Versioned for NodewardRegionOptions {
    const NAME: &'static str = "nodeward_region_options";
    const FIRST_SIZE: usize = offset_of!(Self, node_count) + size_of::<usize>();
}

// SAFETY: numbers, pointers and a function that may be NULL, without padding, size first; zeros are
// valid.
unsafe impl Versioned for NodewardMigration {
    const NAME: &'static str = "nodeward_migration";
    const FIRST_SIZE: usize = offset_of!(Self, cancel) + size_of::<*const NodewardCancel>();
}

/// The pager that C wants.
///
/// # Safety
/// As for [`sized::read`].
pub unsafe fn pager(from: *const NodewardPagerOptions) -> Result<PagerOptions, CallFailure> {
    // SAFETY: the caller vouches for the pointer.
    let theirs = unsafe { sized::read(from) }?;
    let NodewardPagerOptions { size: _, pool_bytes, lanes, flags: bits } = theirs;
    let all =
        NODEWARD_PAGER_KERNEL_ONLY | NODEWARD_PAGER_ASSUME_NO_SYSCALLS | NODEWARD_PAGER_NO_POOL;
    known_flags(bits.into(), all, NodewardPagerOptions::NAME)?;
    let no_pool = bits & NODEWARD_PAGER_NO_POOL != 0;
    if no_pool && pool_bytes != 0 {
        let words = "NODEWARD_PAGER_NO_POOL and pool_bytes exclude each other; choose one";
        return Err(CallFailure::Argument(words.to_owned()));
    }
    Ok(PagerOptions {
        lanes: non_default(lanes),
        pool_bytes: if no_pool { Some(0) } else { non_default(pool_bytes) },
        assume_no_syscalls: bits & NODEWARD_PAGER_ASSUME_NO_SYSCALLS != 0,
        kernel_only: bits & NODEWARD_PAGER_KERNEL_ONLY != 0,
        ..PagerOptions::default()
    })
}

/// The region that C wants.
///
/// # Safety
/// As for [`sized::read`], and for the nodes as for [`placement`].
pub unsafe fn region(from: *const NodewardRegionOptions) -> Result<RegionOptions, CallFailure> {
    // SAFETY: the caller vouches for the pointer.
    let theirs = unsafe { sized::read(from) }?;
    known_flags(theirs.flags.into(), NODEWARD_REGION_FREE_OF_DMA, NodewardRegionOptions::NAME)?;
    Ok(RegionOptions {
        page: page(theirs.page)?,
        // SAFETY: the caller vouches for the nodes.
        placement: unsafe { placement(theirs.nodes, theirs.node_count) }?,
        mode: mode(theirs.mode)?,
        arrive: arrive(theirs.arrive)?.unwrap_or_default(),
        fork: fork(theirs.fork)?,
        free_of_dma: theirs.flags & NODEWARD_REGION_FREE_OF_DMA != 0,
    })
}

/// The pool that C wants.
///
/// # Safety
/// As for [`sized::read`].
pub unsafe fn pool(from: *const NodewardPoolOptions) -> Result<PoolOptions, CallFailure> {
    // SAFETY: the caller vouches for the pointer.
    let theirs = unsafe { sized::read(from) }?;
    let all = NODEWARD_POOL_NO_LISTS | NODEWARD_POOL_NO_HOUSEKEEPER;
    known_flags(theirs.flags.into(), all, NodewardPoolOptions::NAME)?;
    let no_lists = theirs.flags & NODEWARD_POOL_NO_LISTS != 0;
    if no_lists && theirs.high_default != 0 {
        let words = "NODEWARD_POOL_NO_LISTS and high_default exclude each other; choose one";
        return Err(CallFailure::Argument(words.to_owned()));
    }
    Ok(PoolOptions {
        tuning: tuning(theirs.tuning)?,
        page: page(theirs.page)?,
        zone_bytes: non_default(theirs.zone_bytes),
        batch: non_default(theirs.batch),
        high_default: if no_lists { Some(0) } else { non_default(theirs.high_default) },
        keep_bytes: theirs.keep_bytes,
        period: Duration::from_millis(theirs.period_ms.into()),
        housekeeper: theirs.flags & NODEWARD_POOL_NO_HOUSEKEEPER == 0,
    })
}

/// Returns the placement that C asks for: no node, one, or several in turn.
///
/// # Safety
/// There are `count` nodes, or the pointer is NULL.
pub unsafe fn placement(nodes: *const u32, count: usize) -> Result<Placement, CallFailure> {
    // SAFETY: the caller vouches for so many.
    let numbers = unsafe { pointers::slice(nodes, count, "nodes") }?;
    let ids = numbers.iter().map(|&number| node(number)).collect::<Result<Nodemask, Error>>()?;
    Ok(match ids.first() {
        None => Placement::Local,
        Some(only) if ids.len() == 1 => Placement::Node(only),
        Some(_) => Placement::Interleaved(ids),
    })
}

/// A node that a mask can hold.
pub fn node(number: u32) -> Result<NodeId, Error> {
    let node = NodeId(number);
    if number < NodeId::LIMIT { Ok(node) } else { Err(Error::UnknownNode { node }) }
}

/// Does something with the migration that C wants.
///
/// # Safety
/// As for [`sized::read`]; what is named in the struct lives, and may be used, until this returns.
pub unsafe fn with_migration<R>(
    from: *const NodewardMigration,
    run: impl FnOnce(&Migration<'_>) -> Result<R, CallFailure>,
) -> Result<R, CallFailure> {
    // SAFETY: the caller vouches for the pointer.
    let theirs = unsafe { sized::read(from) }?;
    known_flags(theirs.flags, NODEWARD_MIGRATION_EVEN_IF_THERE, NodewardMigration::NAME)?;
    let progress = theirs.progress.map(|function| {
        move |done: Progress| {
            // SAFETY: C gave a function and its argument for this.
            unsafe { function(theirs.user, done.examined_bytes, done.total_bytes) }
        }
    });
    // SAFETY: C keeps it alive until we return.
    let cancel = unsafe { theirs.cancel.as_ref() };
    run(&Migration {
        budget: Budget {
            bytes_per_s: non_default(theirs.bytes_per_s),
            stall: non_default(theirs.stall_ns).map(Duration::from_nanos),
        },
        lanes: non_default(theirs.lanes),
        batch_bytes: non_default(theirs.batch_bytes),
        supply: supply(theirs.supply)?,
        arrive: arrive(theirs.arrive)?,
        even_if_there: theirs.flags & u64::from(NODEWARD_MIGRATION_EVEN_IF_THERE) != 0,
        progress: progress.as_ref().map(|call| call as &dyn Fn(Progress)),
        cancel: cancel.map(|cancel| &cancel.0),
    })
}

/// Returns the mode with this number.
pub fn mode(number: u32) -> Result<Mode, CallFailure> {
    let all =
        [(NodewardMode::Auto as u32, Mode::Auto), (NodewardMode::Kernel as u32, Mode::Kernel)];
    one_of("mode", number, &all)
}

fn page(number: u32) -> Result<PageSize, CallFailure> {
    let all =
        [(NodewardPage::Base as u32, PageSize::Base), (NodewardPage::Huge as u32, PageSize::Huge)];
    one_of("page", number, &all)
}

fn tuning(number: u32) -> Result<TunerKind, CallFailure> {
    let all = [
        (NodewardTuning::Default as u32, TunerKind::default()),
        (NodewardTuning::Fixed as u32, TunerKind::Fixed),
        (NodewardTuning::Depth as u32, TunerKind::Depth),
        (NodewardTuning::Events as u32, TunerKind::Events),
    ];
    one_of("tuning", number, &all)
}

fn fork(number: u32) -> Result<ForkRule, CallFailure> {
    let all = [
        (NodewardFork::Copy as u32, ForkRule::Copy),
        (NodewardFork::Dont as u32, ForkRule::DontFork),
    ];
    one_of("fork", number, &all)
}

fn supply(number: u32) -> Result<Supply, CallFailure> {
    let all = [
        (NodewardSupply::Any as u32, Supply::Any),
        (NodewardSupply::Recycled as u32, Supply::Recycled),
        (NodewardSupply::OneWay as u32, Supply::OneWay),
    ];
    one_of("supply", number, &all)
}

/// Returns the size at the destination; `None` for that of the region.
fn arrive(number: u64) -> Result<Option<Arrive>, CallFailure> {
    let all = [
        (NodewardArrive::Default as u32, None),
        (NodewardArrive::AsTheyLeave as u32, Some(Arrive::AsTheyLeave)),
        (NodewardArrive::Huge as u32, Some(Arrive::Huge)),
    ];
    one_of("arrive", u32::try_from(number).unwrap_or(u32::MAX), &all)
}

fn one_of<T: Copy>(name: &str, number: u32, all: &[(u32, T)]) -> Result<T, CallFailure> {
    let found = all.iter().find(|(known, _)| *known == number).map(|&(_, value)| value);
    found.ok_or_else(|| {
        CallFailure::Argument(format!(
            "{number} has no meaning as {name}; take one of enum nodeward_{name}"
        ))
    })
}

/// Refuses flags that have no meaning where they stand: in a struct or call of that name.
pub fn known_flags(bits: u64, all: u32, name: &str) -> Result<(), CallFailure> {
    match bits & !u64::from(all) {
        0 => Ok(()),
        unknown => Err(CallFailure::Argument(format!(
            "flags of {name} has {unknown:#x}, which has no meaning; set only what the header names"
        ))),
    }
}

/// Zero stands for the default.
fn non_default<T: Default + PartialEq>(number: T) -> Option<T> {
    (number != T::default()).then_some(number)
}
