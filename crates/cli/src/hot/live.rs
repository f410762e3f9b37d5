//! The kernel's own trackers. Neither knows who accesses.

use std::path::Path;

use anyhow::Result;
use nodeward_linux::hot::{RegionAccess, damon, written};
use nodeward_machine::Process;
use nodeward_model::units::show_ns;
use nodeward_model::{Access, Accessor};

use super::HotSource;

/// A sample of DAMON says that a page was accessed within 5 ms, not how often: taken for one miss
/// on each of its 64 lines.
const MISSES_PER_SAMPLE: u64 = 64;
/// A page that was written was written once or a million times: taken for as many misses as the
/// proposal of 2004 gives as the worth of a move.
const MISSES_PER_WRITTEN_PAGE: u64 = 1000;

/// DAMON, for so many nanoseconds.
pub struct Damon {
    watch_ns: u64,
}

impl Damon {
    /// Tries whether it works here.
    pub fn probe(watch_ns: u64) -> Result<Self> {
        damon::probe(Path::new("/"))?;
        Ok(Self { watch_ns })
    }
}

impl HotSource for Damon {
    fn describe(&self) -> String {
        format!("watching for {} with DAMON, which samples regions", show_ns(self.watch_ns))
    }

    fn misses_per_count(&self) -> u64 {
        MISSES_PER_SAMPLE
    }

    fn observe(
        self: Box<Self>,
        process: &dyn Process,
        stop: &dyn Fn() -> bool,
        see: &mut dyn FnMut(Access),
    ) -> Result<()> {
        hand_over(&damon::watch(Path::new("/"), process, self.watch_ns, stop)?, see);
        Ok(())
    }
}

/// Pages that are written within so many nanoseconds.
pub struct Written {
    watch_ns: u64,
}

impl Written {
    /// Tries whether it works here.
    pub fn probe(watch_ns: u64) -> Result<Self> {
        written::probe(Path::new("/"))?;
        Ok(Self { watch_ns })
    }
}

impl HotSource for Written {
    fn describe(&self) -> String {
        format!(
            "watching for {} which pages are written; reads are not seen",
            show_ns(self.watch_ns)
        )
    }

    fn misses_per_count(&self) -> u64 {
        MISSES_PER_WRITTEN_PAGE
    }

    fn observe(
        self: Box<Self>,
        process: &dyn Process,
        stop: &dyn Fn() -> bool,
        see: &mut dyn FnMut(Access),
    ) -> Result<()> {
        hand_over(&written::watch(process, self.watch_ns, stop)?, see);
        Ok(())
    }
}

/// Each page of a region counts as the region does.
fn hand_over(regions: &[RegionAccess], see: &mut dyn FnMut(Access)) {
    let page_bytes = rustix::param::page_size();
    for region in regions {
        for address in (region.range.start..region.range.end).step_by(page_bytes) {
            see(Access { address, by: Accessor::Unknown, count: region.accesses });
        }
    }
}
