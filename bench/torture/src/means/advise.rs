//! madvise: discards content, as far as it is in sight.

use nodeward_linux::interference::{MemoryChange, change_memory};

use crate::means_thread::{Means, MeansEnv, MeansThreads, single_thread};
use crate::owned_range::OwnedRange;
use crate::test_memory::RangeUse;
use crate::thread_context::{StepFailure, ThreadContext, failure};

pub const WHAT: &str = "madvise: each page is empty afterwards or as it was, and not in between";

struct Advise(Vec<OwnedRange<'static>>);

pub fn make(env: &mut MeansEnv<'_>) -> MeansThreads {
    single_thread(Advise(env.memory.ranges(RangeUse::Plain)))
}

impl Means for Advise {
    fn step(&mut self, context: &mut ThreadContext) -> Result<(), StepFailure> {
        let lot = context.random_range(&mut self.0);
        context.check_and_write(lot)?;
        let pages = context.random_pages(lot);
        context.begin_action("madvise(MADV_DONTNEED)", lot, &pages);
        change_memory(lot.words_of(pages.clone()), MemoryChange::Discard)
            .map_err(failure("madvise"))?;
        lot.check_emptied_or_whole(pages.clone())?;
        lot.write(pages.clone());
        Ok(lot.check(pages)?)
    }

    fn ranges(&mut self) -> &mut [OwnedRange<'static>] {
        &mut self.0
    }
}
