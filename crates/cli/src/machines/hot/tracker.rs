//! The kernel's own trackers. Neither knows which thread accesses.

use std::path::Path;

use anyhow::Result;
use nodeward_linux::hot::{RegionAccess, damon, soft_dirty};
use nodeward_machine::Process;
use nodeward_model::units::format_ns;
use nodeward_model::{Access, Accessor};

use super::source::{AccessUnit, Half, HotSource};

/// Misses per sample of DAMON. A sample says that a page was accessed within 5 ms, not how often:
/// counted as one miss on each of its 64 lines.
const MISSES_PER_SAMPLE: u64 = 64;
/// Misses per written page. Such a page was written once or a million times: counted as the misses
/// at which the proposal of 2004 considers a move worthwhile.
const MISSES_PER_WRITTEN_PAGE: u64 = 1000;

/// The tracker.
#[derive(Clone, Copy, Debug)]
pub enum Tracker {
    /// DAMON, which samples regions.
    Damon,
    /// The soft-dirty bits of pages.
    SoftDirty,
}

/// A tracker that watches for a time in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct TrackerSource {
    tracker: Tracker,
    watch_ns: u64,
}

impl TrackerSource {
    /// Checks that the tracker works here.
    pub fn probe(tracker: Tracker, watch_ns: u64) -> Result<Self> {
        match tracker {
            Tracker::Damon => damon::probe(Path::new("/")),
            Tracker::SoftDirty => soft_dirty::probe(Path::new("/")),
        }?;
        Ok(Self { tracker, watch_ns })
    }
}

impl HotSource for TrackerSource {
    fn describe(&self) -> String {
        let what = match self.tracker {
            Tracker::Damon => "with DAMON, which samples regions",
            Tracker::SoftDirty => "which pages are written; reads are not seen",
        };
        format!("watching for {} {what}", format_ns(self.watch_ns))
    }

    fn misses_per_count(&self) -> u64 {
        match self.tracker {
            Tracker::Damon => MISSES_PER_SAMPLE,
            Tracker::SoftDirty => MISSES_PER_WRITTEN_PAGE,
        }
    }

    fn observe(
        self: Box<Self>,
        process: &dyn Process,
        stop: &dyn Fn() -> bool,
        see: &mut dyn FnMut(Half, Access),
    ) -> Result<AccessUnit> {
        let regions = match self.tracker {
            Tracker::Damon => damon::watch(Path::new("/"), process, self.watch_ns, stop),
            Tracker::SoftDirty => soft_dirty::watch(process, self.watch_ns, stop),
        }?;
        regions.iter().for_each(|region| feed_region(region, see));
        Ok(AccessUnit::Counts)
    }
}

/// Passes on each page of a region with the count of the region.
fn feed_region(region: &RegionAccess, see: &mut dyn FnMut(Half, Access)) {
    for address in (region.range.start..region.range.end).step_by(rustix::param::page_size()) {
        let count = region.accesses;
        see(Half::First, Access { address, accessor: Accessor::Unknown, count });
    }
}
