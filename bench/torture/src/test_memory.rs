//! The memory: one pager, regions of each kind, and the lots that their owners have.

use anyhow::{Context, Result};
use nodeward::{Backend, ForkRule, NodeId, PageSize, Pager, PagerOptions, Region, RegionOptions};

use crate::owned_range::OwnedRange;

/// Size of each region, and of a lot, in bytes.
const REGION_BYTES: usize = 16 << 20;
pub const RANGE_BYTES: usize = 256 << 10;
pub const HUGE_BYTES: usize = 2 << 20;

/// The use of lots, for which not every region is suitable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeUse {
    /// Access by threads only.
    Plain,
    /// Use by devices, or locking.
    PinnedOrLocked,
    /// Inspection by children of fork(2).
    Inherited,
}

/// A region, and how much of it is taken.
struct RegionRanges {
    region: &'static Region,
    options: RegionOptions,
    taken: usize,
}

/// The memory that all means work on. It lives as long as the process.
pub struct TestMemory {
    pub pager: &'static Pager,
    pub nodes: Vec<NodeId>,
    regions: Vec<RegionRanges>,
    owner_count: u8,
}

impl TestMemory {
    /// Opens the pager and reserves the regions.
    pub fn open(options: &PagerOptions) -> Result<Self> {
        let pager: &'static Pager = Box::leak(Box::new(Pager::open(options)?));
        let nodes = nodeward::nodes()?.iter().collect();
        let all_owned =
            kinds().into_iter().filter_map(|options| open_region(pager, options).transpose());
        let all_owned = all_owned.collect::<Result<Vec<_>>>()?;
        Ok(Self { pager, nodes, regions: all_owned, owner_count: 0 })
    }

    /// Returns all regions.
    pub fn regions(&self) -> Vec<&'static Region> {
        self.regions.iter().map(|owned| owned.region).collect()
    }

    /// Takes a lot of each region that is suitable for the use.
    pub fn ranges(&mut self, used: RangeUse) -> Vec<OwnedRange<'static>> {
        self.ranges_of(used, RANGE_BYTES)
    }

    /// Like [`TestMemory::ranges`], with lots of `bytes` bytes; none where there is no room.
    pub fn ranges_of(&mut self, used: RangeUse, bytes: usize) -> Vec<OwnedRange<'static>> {
        let backend = self.pager.backend();
        let all_owned = self.regions.iter_mut().filter(|owned| owned.is_for(used, backend));
        all_owned.filter_map(|owned| owned.take(bytes, &mut self.owner_count)).collect()
    }
}

impl RegionRanges {
    fn is_for(&self, used: RangeUse, backend: Backend) -> bool {
        match used {
            RangeUse::Plain => true,
            RangeUse::PinnedOrLocked => backend == Backend::Move || !self.options.free_of_dma,
            RangeUse::Inherited => self.options.fork == ForkRule::Copy,
        }
    }

    /// Takes the next lot, whose owner gets the next number.
    fn take(&mut self, bytes: usize, owners: &mut u8) -> Option<OwnedRange<'static>> {
        let start = self.taken.next_multiple_of(bytes);
        let range = start..start + bytes;
        (range.end <= self.region.bytes()).then(|| {
            self.taken = range.end;
            *owners += 1;
            OwnedRange::new(self.region, range, *owners)
        })
    }
}

/// Returns the options of every kind of region.
fn kinds() -> [RegionOptions; 4] {
    let plain = RegionOptions::default();
    [
        plain.clone(),
        RegionOptions { free_of_dma: true, ..plain.clone() },
        RegionOptions { free_of_dma: true, fork: ForkRule::DontFork, ..plain.clone() },
        RegionOptions { page: PageSize::Huge, ..plain },
    ]
}

/// Reserves a region; `None` if the machine has no such pages.
fn open_region(pager: &'static Pager, options: RegionOptions) -> Result<Option<RegionRanges>> {
    match pager.reserve(REGION_BYTES, &options) {
        Err(nodeward::Error::NoHugePages { reason: why }) => {
            eprintln!("no region of huge pages: {why}");
            Ok(None)
        }
        region => {
            let region = region.with_context(|| format!("a region {options:?}"))?;
            Ok(Some(RegionRanges { region: Box::leak(Box::new(region)), options, taken: 0 }))
        }
    }
}
