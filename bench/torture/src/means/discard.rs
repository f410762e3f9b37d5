//! The region's own discard: the memory is empty afterwards, wherever its pages were.

use nodeward::Placement;

use crate::means_thread::{Means, MeansEnv, MeansThreads, single_thread};
use crate::owned_range::{OwnedRange, PAGE};
use crate::test_memory::{HUGE_BYTES, RANGE_BYTES, RangeUse};
use crate::thread_context::{StepFailure, ThreadContext, failure};

pub const WHAT: &str = "discard and commit";

struct Discard(Vec<OwnedRange<'static>>);

/// Lots are as large as huge pages, which are discarded as a whole.
pub fn make(site: &mut MeansEnv<'_>) -> MeansThreads {
    single_thread(Discard(site.memory.ranges_of(RangeUse::Plain, HUGE_BYTES)))
}

impl Means for Discard {
    fn step(&mut self, hand: &mut ThreadContext) -> Result<(), StepFailure> {
        let lot = hand.random_range(&mut self.0);
        hand.check_and_write(lot)?;
        let some = hand.random_pages(lot);
        let some = some.start..some.end.min(some.start + RANGE_BYTES / PAGE);
        let size = lot.region.page_bytes() / PAGE;
        let pages = some.start / size * size..some.end.next_multiple_of(size);
        let start = lot.bytes.start;
        let bytes = start + pages.start * PAGE..start + pages.end * PAGE;
        hand.begin_action("discard", lot, &pages);
        lot.region.discard(bytes.clone()).map_err(failure("discard"))?;
        lot.mark_emptied(pages.clone());
        lot.check(pages.clone())?;
        if hand.once_in(2) {
            hand.begin_action("commit", lot, &pages);
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
