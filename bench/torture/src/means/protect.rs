//! mprotect: memory that is write-protected or inaccessible for a while.

use nodeward_linux::interference::{MemoryChange, change_memory};

use crate::means_thread::{Means, MeansEnv, MeansThreads, single_thread};
use crate::owned_range::OwnedRange;
use crate::test_memory::RangeUse;
use crate::thread_context::{StepFailure, ThreadContext, failure};

pub const WHAT: &str = "mprotect to read only and to nothing, and back";

struct Protect(Vec<OwnedRange<'static>>);

pub fn make(env: &mut MeansEnv<'_>) -> MeansThreads {
    single_thread(Protect(env.memory.ranges(RangeUse::Plain)))
}

impl Means for Protect {
    fn step(&mut self, context: &mut ThreadContext) -> Result<(), StepFailure> {
        let lot = context.random_range(&mut self.0);
        context.check_and_write(lot)?;
        let pages = context.random_pages(lot);
        let words = lot.words_of(pages.clone());
        let forbids = context.once_in(2);
        context.begin_action(
            if forbids { "mprotect nothing" } else { "mprotect read" },
            lot,
            &pages,
        );
        let how = if forbids { MemoryChange::ProtectNone } else { MemoryChange::ProtectReadOnly };
        change_memory(words, how).map_err(failure("mprotect"))?;
        if !forbids {
            lot.check(pages.clone())?;
        }
        std::thread::sleep(std::time::Duration::from_micros(context.random.below(2000) as u64));
        context.begin_action("mprotect all", lot, &pages);
        change_memory(words, MemoryChange::Unprotect).map_err(failure("mprotect"))?;
        lot.check(pages.clone())?;
        lot.write(pages);
        Ok(())
    }

    fn ranges(&mut self) -> &mut [OwnedRange<'static>] {
        &mut self.0
    }
}
