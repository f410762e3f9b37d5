//! The memory: one pager, regions of each kind, and the lots that their owners have.

use anyhow::{Context, Result};
use nodeward::{ForkRule, NodeId, PageSize, Pager, PagerOptions, Region, RegionOptions, Road};

use crate::lot::Lot;

/// Size of each region, and of a lot, in bytes.
const REGION_BYTES: usize = 16 << 20;
pub const LOT_BYTES: usize = 256 << 10;
pub const HUGE_BYTES: usize = 2 << 20;

/// The use of lots, for which not every region is suitable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Access by threads only.
    Plain,
    /// Use by devices, or locking.
    Held,
    /// Inspection by children of fork(2).
    Inherited,
}

/// A region, and how much of it is taken.
struct Plot {
    region: &'static Region,
    options: RegionOptions,
    taken: usize,
}

/// The memory that all means work on. It lives as long as the process.
pub struct Ground {
    pub pager: &'static Pager,
    pub nodes: Vec<NodeId>,
    plots: Vec<Plot>,
    owners: u8,
}

impl Ground {
    /// Opens the pager and reserves the regions.
    pub fn open(options: &PagerOptions) -> Result<Self> {
        let pager: &'static Pager = Box::leak(Box::new(Pager::open(options)?));
        let nodes = nodeward::nodes()?.iter().collect();
        let plots = kinds().into_iter().filter_map(|options| plot(pager, options).transpose());
        let plots = plots.collect::<Result<Vec<_>>>()?;
        Ok(Self { pager, nodes, plots, owners: 0 })
    }

    /// Returns all regions.
    pub fn regions(&self) -> Vec<&'static Region> {
        self.plots.iter().map(|plot| plot.region).collect()
    }

    /// Takes a lot of each region that is suitable for the use.
    pub fn lots(&mut self, used: Use) -> Vec<Lot<'static>> {
        self.lots_of(used, LOT_BYTES)
    }

    /// Like [`Ground::lots`], with lots of `bytes` bytes; none where there is no room.
    pub fn lots_of(&mut self, used: Use, bytes: usize) -> Vec<Lot<'static>> {
        let road = self.pager.road();
        let plots = self.plots.iter_mut().filter(|plot| plot.is_for(used, road));
        plots.filter_map(|plot| plot.take(bytes, &mut self.owners)).collect()
    }
}

impl Plot {
    fn is_for(&self, used: Use, road: Road) -> bool {
        match used {
            Use::Plain => true,
            Use::Held => road == Road::Move || !self.options.free_of_dma,
            Use::Inherited => self.options.fork == ForkRule::Copy,
        }
    }

    /// Takes the next lot, whose owner gets the next number.
    fn take(&mut self, bytes: usize, owners: &mut u8) -> Option<Lot<'static>> {
        let start = self.taken.next_multiple_of(bytes);
        let range = start..start + bytes;
        (range.end <= self.region.bytes()).then(|| {
            self.taken = range.end;
            *owners += 1;
            Lot::new(self.region, range, *owners)
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
fn plot(pager: &'static Pager, options: RegionOptions) -> Result<Option<Plot>> {
    match pager.reserve(REGION_BYTES, &options) {
        Err(nodeward::Error::NoHugePages { why }) => {
            eprintln!("no region of huge pages: {why}");
            Ok(None)
        }
        region => {
            let region = region.with_context(|| format!("a region {options:?}"))?;
            Ok(Some(Plot { region: Box::leak(Box::new(region)), options, taken: 0 }))
        }
    }
}
