//! Pages go to swap, and come back when they are touched.

use nodeward_linux::interference::{MemoryChange, change_memory};

use crate::means_thread::{Means, MeansEnv, MeansThreads, SkippedMeans, single_thread};
use crate::owned_range::OwnedRange;
use crate::test_memory::RangeUse;
use crate::thread_context::{StepFailure, ThreadContext, failure};

pub const WHAT: &str = "pages that are sent to swap, and come back when they are touched";

struct PageOut(Vec<OwnedRange<'static>>);

pub fn make(env: &mut MeansEnv<'_>) -> MeansThreads {
    swap()?;
    single_thread(PageOut(env.memory.ranges(RangeUse::Plain)))
}

/// Fails if the machine has no swap.
pub fn swap() -> Result<(), SkippedMeans> {
    let swaps = std::fs::read_to_string("/proc/swaps").unwrap_or_default();
    let why = "this machine has no swap; swapon some";
    if swaps.lines().count() > 1 { Ok(()) } else { Err(SkippedMeans(why.to_owned())) }
}

impl Means for PageOut {
    fn step(&mut self, context: &mut ThreadContext) -> Result<(), StepFailure> {
        let lot = context.random_range(&mut self.0);
        let pages = context.random_pages(lot);
        context.begin_action("madvise(MADV_PAGEOUT)", lot, &pages);
        change_memory(lot.words_of(pages.clone()), MemoryChange::PageOut)
            .map_err(failure("madvise"))?;
        lot.check(pages.clone())?;
        context.check_and_write(lot)
    }

    fn ranges(&mut self) -> &mut [OwnedRange<'static>] {
        &mut self.0
    }
}
