//! A region: the handle that programs have.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::AtomicU64;

use nodeward_model::NodeId;

use crate::{Error, Migration, Mode, Placement, Report, Result};

/// Managed memory. It ends with the handle: dropping it ends migrations, waits for pages in flight
/// and unmaps. Ranges are bytes from the region's start and must be whole pages (whole huge pages
/// in a region of huge pages).
#[derive(Debug)]
pub struct Region(());

impl Region {
    /// The first byte. The memory may be read and written like any other, by any thread, as long
    /// as the region lives, also while it moves.
    pub fn as_ptr(&self) -> *mut u8 {
        std::ptr::null_mut()
    }

    /// Bytes; a multiple of 2 MiB.
    pub fn bytes(&self) -> usize {
        0
    }

    /// Bytes of one of its pages.
    pub fn page_bytes(&self) -> usize {
        4096
    }

    /// The content, for threads that share it.
    pub fn words(&self) -> &[AtomicU64] {
        &[]
    }

    /// Brings pages into memory that are not: zeros, on the nodes of `placement`.
    pub fn commit(&self, _range: Range<usize>, _placement: &Placement) -> Result<()> {
        Err(Error::Closing)
    }

    /// Gives the memory of a range back; it reads as zero afterwards. Waits for pages in flight.
    pub fn discard(&self, _range: Range<usize>) -> Result<()> {
        Err(Error::Closing)
    }

    /// Moves a range to a node.
    pub fn migrate(
        &self,
        _range: Range<usize>,
        _to: NodeId,
        _how: &Migration<'_>,
    ) -> Result<Report> {
        Err(Error::Closing)
    }

    /// Leaves a range out, so that the next thread to touch a granule (256 KiB) pulls it to its
    /// own node. Returns when all is out; `Report::lazy_pages` counts.
    pub fn migrate_lazily(&self, _range: Range<usize>, _how: &Migration<'_>) -> Result<Report> {
        Err(Error::Closing)
    }

    /// Exchanges the nodes of two ranges of equal length: what is on the node of the first goes to
    /// that of the second and the other way round, in turns, so that neither node needs room for
    /// more than a few batches.
    pub fn exchange(
        &self,
        _one: Range<usize>,
        _other: Range<usize>,
        _how: &Migration<'_>,
    ) -> Result<Report> {
        Err(Error::Closing)
    }

    /// Base pages of a range by node, counted. Pages that are out (lazy) count where they are.
    pub fn residency(&self, _range: Range<usize>) -> Result<BTreeMap<NodeId, u64>> {
        Err(Error::Closing)
    }

    /// Keeps a range where it is until the guard is dropped, because somebody holds plain
    /// references to its pages (vmsplice(2), MSG_ZEROCOPY, direct I/O of some network file
    /// systems). Waits for pages in flight and pulls lazy ones back.
    pub fn pin(&self, _range: Range<usize>) -> Result<PinGuard<'_>> {
        Err(Error::Closing)
    }

    /// Chooses what moves the pages.
    pub fn set_mode(&self, _mode: Mode) -> Result<()> {
        Err(Error::Closing)
    }
}

/// Keeps a range of a region where it is.
#[derive(Debug)]
pub struct PinGuard<'a>(std::marker::PhantomData<&'a Region>);
