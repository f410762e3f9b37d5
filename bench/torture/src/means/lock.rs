//! mlock: memory that must not leave.

use nodeward_linux::interference::{MemoryChange, change_memory};

use crate::means_thread::{Means, MeansEnv, MeansThreads, SkippedMeans, single_thread};
use crate::owned_range::OwnedRange;
use crate::test_memory::RangeUse;
use crate::thread_context::{StepFailure, ThreadContext, failure};

pub const WHAT: &str = "mlock and munlock";

struct MlockMeans(Vec<OwnedRange<'static>>);

pub fn make(env: &mut MeansEnv<'_>) -> MeansThreads {
    let lots = env.memory.ranges(RangeUse::PinnedOrLocked);
    let Some(lot) = lots.first() else {
        return Err(SkippedMeans("no region may be locked with this backend".to_owned()));
    };
    let may = change_memory(lot.words(), MemoryChange::Lock);
    may.map_err(|error| SkippedMeans(format!("mlock: {error}; raise RLIMIT_MEMLOCK")))?;
    change_memory(lot.words(), MemoryChange::Unlock)
        .map_err(|error| SkippedMeans(error.to_string()))?;
    single_thread(MlockMeans(lots))
}

impl Means for MlockMeans {
    fn step(&mut self, context: &mut ThreadContext) -> Result<(), StepFailure> {
        let lot = context.random_range(&mut self.0);
        let pages = context.random_pages(lot);
        context.begin_action("mlock", lot, &pages);
        change_memory(lot.words_of(pages.clone()), MemoryChange::Lock).map_err(failure("mlock"))?;
        lot.check(pages.clone())?;
        lot.write(pages.clone());
        std::thread::sleep(std::time::Duration::from_micros(context.random.below(2000) as u64));
        lot.check(pages.clone())?;
        context.begin_action("munlock", lot, &pages);
        change_memory(lot.words_of(pages), MemoryChange::Unlock).map_err(failure("munlock"))?;
        context.check_and_write(lot)
    }

    fn ranges(&mut self) -> &mut [OwnedRange<'static>] {
        &mut self.0
    }
}
