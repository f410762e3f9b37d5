//! The region's own discard: the memory is empty afterwards, wherever its pages were.

use nodeward::Placement;

use crate::means_thread::{Means, MeansEnv, MeansThreads, single_thread};
use crate::owned_range::{OwnedRange, PAGE};
use crate::test_memory::{HUGE_BYTES, RANGE_BYTES, RangeUse};
use crate::thread_context::{StepFailure, ThreadContext, failure};

pub const WHAT: &str = "discard and commit";

struct Discard(Vec<OwnedRange<'static>>);

/// Lots are as large as huge pages, which are discarded as a whole.
pub fn make(env: &mut MeansEnv<'_>) -> MeansThreads {
    single_thread(Discard(env.memory.ranges_of(RangeUse::Plain, HUGE_BYTES)))
}

impl Means for Discard {
    fn step(&mut self, context: &mut ThreadContext) -> Result<(), StepFailure> {
        let lot = context.random_range(&mut self.0);
        context.check_and_write(lot)?;
        let some = context.random_pages(lot);
        let some = some.start..some.end.min(some.start + RANGE_BYTES / PAGE);
        let size = lot.region.page_bytes() / PAGE;
        let pages = some.start / size * size..some.end.next_multiple_of(size);
        let start = lot.bytes.start;
        let bytes = start + pages.start * PAGE..start + pages.end * PAGE;
        context.begin_action("discard", lot, &pages);
        lot.region.discard(bytes.clone()).map_err(failure("discard"))?;
        lot.mark_emptied(pages.clone());
        lot.check(pages.clone())?;
        if context.once_in(2) {
            context.begin_action("commit", lot, &pages);
            lot.region.commit(bytes, &Placement::Local).map_err(failure("commit"))?;
            lot.check(pages.clone())?;
        }
        lot.write(some.clone());
        Ok(lot.check(some)?)
    }

    fn ranges(&mut self) -> &mut [OwnedRange<'static>] {
        &mut self.0
    }
}
