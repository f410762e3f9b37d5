//! A region.

use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::ptr;
use std::sync::Arc;

use nodeward::{
    Error, Migration, MigrationReport, NodeId, PinGuard, RangeStatus, RangeTarget, Region,
    managed_regions,
};

use crate::options::{self, NodewardMigration};
use crate::report::{NodewardReport, NodewardSkip};
use crate::status::{CallFailure, NodewardStatus, status_of};
use crate::{pointers, sized};

/// Managed memory. Ranges are an offset in bytes from its start and a length in bytes, both whole
/// pages.
#[derive(Debug)]
pub struct NodewardRegion(Arc<Region>);

/// Keeps a range of a region where it is.
#[derive(Debug)]
pub struct NodewardPin {
    /// Borrows the region below, so it stands first: fields are dropped in this order.
    _guard: PinGuard<'static>,
    _region: Arc<Region>,
}

/// Pages of a region on one node.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct NodewardNodePages {
    /// The node.
    pub node: u32,
    /// Base pages.
    pub pages: u64,
}

/// An entry of a list: a range of a region, and the node that it is to go to.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct NodewardRangeTarget {
    /// Bytes from the region's start.
    pub offset: usize,
    /// Length in bytes.
    pub bytes: usize,
    /// The destination.
    pub node: u32,
}

/// The status of an entry of a list.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct NodewardRangeStatus {
    /// One of enum nodeward_status: NODEWARD_STATUS_OK, or why the entry is invalid.
    pub status: u32,
    /// One of enum nodeward_skip: why the first of the pages stayed that did; 0 if none did.
    pub reason: u32,
    /// Base pages that are not on the destination.
    pub stayed_pages: u64,
}

impl From<&NodewardRangeTarget> for RangeTarget {
    fn from(target: &NodewardRangeTarget) -> Self {
        // A range beyond all addresses is out of every region.
        let end = target.offset.saturating_add(target.bytes);
        Self { range: target.offset..end, to: NodeId(target.node) }
    }
}

impl From<&RangeStatus> for NodewardRangeStatus {
    fn from(status: &RangeStatus) -> Self {
        let ok = NodewardStatus::Ok as u32;
        match status {
            RangeStatus::There => Self { status: ok, reason: 0, stayed_pages: 0 },
            RangeStatus::Stayed { pages, reason } => {
                let reason = NodewardSkip::from(*reason) as u32;
                Self { status: ok, reason, stayed_pages: *pages }
            }
            RangeStatus::Refused(why) => {
                Self { status: NodewardStatus::from(why) as u32, reason: 0, stayed_pages: 0 }
            }
        }
    }
}

impl NodewardRegion {
    pub fn new(region: Region) -> Self {
        let region = Arc::new(region);
        managed_regions::enter(&region);
        Self(region)
    }

    fn range(&self, offset: usize, bytes: usize) -> Result<Range<usize>, Error> {
        let region_bytes = self.0.bytes();
        match offset.checked_add(bytes) {
            Some(end) => Ok(offset..end),
            None => Err(Error::OutOfRegion { start: offset, end: usize::MAX, region_bytes }),
        }
    }
}

/// A range of a region that C named, and the region, which now outlives its handle.
///
/// # Safety
/// The region lives.
unsafe fn region_range(
    region: *const NodewardRegion,
    offset: usize,
    bytes: usize,
) -> Result<(Arc<Region>, Range<usize>), CallFailure> {
    // SAFETY: the caller vouches for it.
    let region = unsafe { pointers::deref(region, "region") }?;
    Ok((Arc::clone(&region.0), region.range(offset, bytes)?))
}

/// Ends a region: its memory is unmapped and nobody may use it any more. Where calls of other
/// threads are under way or pins are left, the region ends with the last of them. To end a
/// migration early, cancel it. Does nothing for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nodeward_region_release(region: *mut NodewardRegion) {
    // SAFETY: it comes from `nodeward_region_reserve`, and C does not use it again.
    unsafe { pointers::free_box(region) };
}

/// Returns the address of the first byte, aligned to 2 MiB. Any thread may read and write the
/// memory like any other, also while it moves. NULL for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nodeward_region_address(region: *const NodewardRegion) -> *mut c_void {
    // SAFETY: C keeps it alive.
    unsafe { region.as_ref() }.map_or(ptr::null_mut(), |region| region.0.as_ptr().cast())
}

/// Returns the bytes of a region, a multiple of 2 MiB; 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nodeward_region_bytes(region: *const NodewardRegion) -> usize {
    // SAFETY: C keeps it alive.
    unsafe { region.as_ref() }.map_or(0, |region| region.0.bytes())
}

/// Returns the bytes of a page of the region. Ranges must be multiples of it. 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nodeward_region_page_bytes(region: *const NodewardRegion) -> usize {
    // SAFETY: C keeps it alive.
    unsafe { region.as_ref() }.map_or(0, |region| region.0.page_bytes())
}

/// Brings pages into memory that are not there, filled with zeros: on `node_count` nodes, 2 MiB on
/// each in turn, or, without any, on the node of the calling thread. In mode NODEWARD_MODE_KERNEL
/// pages are left out that may not be written, by mprotect(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nodeward_region_commit(
    region: *const NodewardRegion,
    offset: usize,
    bytes: usize,
    nodes: *const u32,
    node_count: usize,
) -> c_int {
    status_of(|| {
        // SAFETY: C keeps it alive.
        let (region, range) = unsafe { region_range(region, offset, bytes) }?;
        // SAFETY: C has so many nodes.
        let placement = unsafe { options::placement(nodes, node_count) }?;
        Ok(region.commit(range, &placement)?)
    })
}

/// Gives the memory of a range back; it reads as zero afterwards. Waits for pages in flight.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nodeward_region_discard(
    region: *const NodewardRegion,
    offset: usize,
    bytes: usize,
) -> c_int {
    status_of(|| {
        // SAFETY: C keeps it alive.
        let (region, range) = unsafe { region_range(region, offset, bytes) }?;
        Ok(region.discard(range)?)
    })
}

/// Runs a migration as C wants it and writes the report where C wants it.
///
/// # Safety
/// As for [`options::with_migration`] and [`sized::write`].
unsafe fn migrate(
    how: *const NodewardMigration,
    report: *mut NodewardReport,
    run: impl FnOnce(&Migration<'_>) -> Result<MigrationReport, Error>,
) -> Result<(), CallFailure> {
    // SAFETY: the caller vouches for `report`.
    unsafe { sized::check(report) }?;
    // SAFETY: the caller vouches for `how`.
    let done = unsafe { options::with_migration(how, |how| Ok(run(how)?)) }?;
    // SAFETY: the caller vouches for `report`.
    unsafe { sized::write(report, &NodewardReport::from(&done)) }
}

/// Moves a range to a node. Returns when each page has had its turn; the report accounts for every
/// page. `how` and `report` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nodeward_region_migrate(
    region: *const NodewardRegion,
    offset: usize,
    bytes: usize,
    node: u32,
    how: *const NodewardMigration,
    report: *mut NodewardReport,
) -> c_int {
    status_of(|| {
        // SAFETY: C keeps it alive.
        let (region, range) = unsafe { region_range(region, offset, bytes) }?;
        let node = options::node(node)?;
        // SAFETY: C hands over structs of the sizes that they say.
        unsafe { migrate(how, report, |how| region.migrate(range, node, how)) }
    })
}

/// Unmaps a range. The next thread that touches a granule (256 KiB) of it brings the granule to its
/// own node. Returns when all pages are unmapped. `how` and `report` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nodeward_region_migrate_lazily(
    region: *const NodewardRegion,
    offset: usize,
    bytes: usize,
    how: *const NodewardMigration,
    report: *mut NodewardReport,
) -> c_int {
    status_of(|| {
        // SAFETY: C keeps it alive.
        let (region, range) = unsafe { region_range(region, offset, bytes) }?;
        // SAFETY: C hands over structs of the sizes that they say.
        unsafe { migrate(how, report, |how| region.migrate_lazily(range, how)) }
    })
}

/// Moves `count` ranges, each to its node, in the order of the list as far as they overlap. An
/// entry that is invalid has its status in `statuses`, which has room for `count` or is NULL, and
/// the others are done. Runs on the calling thread. `how` and `report` may be NULL; of `how`,
/// `lanes`, `stall_ns` and `progress` have no effect. The report has the sum of all valid entries.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nodeward_region_migrate_list(
    region: *const NodewardRegion,
    targets: *const NodewardRangeTarget,
    count: usize,
    how: *const NodewardMigration,
    statuses: *mut NodewardRangeStatus,
    report: *mut NodewardReport,
) -> c_int {
    status_of(|| {
        // SAFETY: C keeps it alive.
        let region = unsafe { pointers::deref(region, "region") }?;
        // SAFETY: C has so many.
        let targets = unsafe { pointers::slice(targets, count, "targets") }?;
        let list: Vec<RangeTarget> = targets.iter().map(RangeTarget::from).collect();
        let (region, mut written) = (Arc::clone(&region.0), 0);
        let run = |how: &Migration<'_>| {
            let done = region.migrate_list(&list, how)?;
            let found: Vec<_> = done.ranges.iter().map(NodewardRangeStatus::from).collect();
            let capacity = if statuses.is_null() { 0 } else { count };
            // SAFETY: C has room for as many as there are targets.
            let told =
                unsafe { pointers::write_list(&found, statuses, capacity, &raw mut written) };
            told.expect("there is room or nothing is written");
            Ok(done.total)
        };
        // SAFETY: C hands over structs of the sizes that they say.
        unsafe { migrate(how, report, run) }
    })
}

/// Exchanges the nodes of two ranges of equal length, in turns, so that neither node needs room for
/// more than a few batches. `how` and `report` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nodeward_region_exchange(
    region: *const NodewardRegion,
    one: usize,
    other: usize,
    bytes: usize,
    how: *const NodewardMigration,
    report: *mut NodewardReport,
) -> c_int {
    status_of(|| {
        // SAFETY: C keeps it alive.
        let (_, one) = unsafe { region_range(region, one, bytes) }?;
        // SAFETY: C keeps it alive.
        let (region, other) = unsafe { region_range(region, other, bytes) }?;
        // SAFETY: C hands over structs of the sizes that they say.
        unsafe { migrate(how, report, |how| region.exchange(one, other, how)) }
    })
}

/// Counts the base pages of a range by node. Writes the nodes to `found`, in ascending order and at
/// most `capacity` of them, and their number to `count`. `found` may be NULL if `capacity` is 0.
/// Lazy pages are not counted.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nodeward_region_residency(
    region: *const NodewardRegion,
    offset: usize,
    bytes: usize,
    found: *mut NodewardNodePages,
    capacity: usize,
    count: *mut usize,
) -> c_int {
    status_of(|| {
        // SAFETY: C keeps it alive.
        let (region, range) = unsafe { region_range(region, offset, bytes) }?;
        let residency = region.residency(range)?;
        let all =
            residency.into_iter().map(|(node, pages)| NodewardNodePages { node: node.0, pages });
        // SAFETY: C has room for so many.
        unsafe { pointers::write_list(&all.collect::<Vec<_>>(), found, capacity, count) }
    })
}

/// Keeps a range where it is until nodeward_region_unpin(), because somebody holds plain references
/// to its pages (vmsplice(2), MSG_ZEROCOPY, direct I/O of some network file systems). Waits for
/// pages in flight and brings lazy pages back. Pins may overlap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nodeward_region_pin(
    region: *const NodewardRegion,
    offset: usize,
    bytes: usize,
    pin: *mut *mut NodewardPin,
) -> c_int {
    status_of(|| {
        // SAFETY: C has a place for the handle.
        unsafe { pointers::write(pin, "pin", ptr::null_mut()) }?;
        // SAFETY: C keeps it alive.
        let (region, range) = unsafe { region_range(region, offset, bytes) }?;
        // SAFETY: the region stands still in its Arc, which ends after the guard that borrows it.
        let borrowed: &'static Region = unsafe { &*Arc::as_ptr(&region) };
        let held = NodewardPin { _guard: borrowed.pin(range)?, _region: region };
        // SAFETY: C has a place for the handle.
        unsafe { pointers::write(pin, "pin", pointers::into_c(held)) }
    })
}

/// Ends a pin, on any thread. Does nothing for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nodeward_region_unpin(pin: *mut NodewardPin) {
    // SAFETY: it comes from `nodeward_region_pin`, and C does not use it again.
    unsafe { pointers::free_box(pin) };
}

/// Chooses what moves the pages: one of enum nodeward_mode.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nodeward_region_set_mode(
    region: *const NodewardRegion,
    mode: u32,
) -> c_int {
    status_of(|| {
        // SAFETY: C keeps it alive.
        let region = unsafe { pointers::deref(region, "region") }?;
        Ok(region.0.set_mode(options::mode(mode)?)?)
    })
}
