//! Means that are broken on purpose, to test the program itself; they run only when named.

use std::sync::atomic::Ordering::Relaxed;

use crate::means_thread::{Means, MeansEnv, MeansThreads, single_thread};
use crate::owned_range::OwnedRange;
use crate::test_memory::RangeUse;
use crate::thread_context::{StepFailure, ThreadContext};

pub const DESCRIPTION_HANG: &str = "to try the watchdog: a thread that stands still";
pub const DESCRIPTION_CORRUPT: &str =
    "to try the checks: memory that does not hold what was written";

pub fn make_hang(_: &mut MeansEnv<'_>) -> MeansThreads {
    single_thread(HangMeans)
}

pub fn make_corrupt(env: &mut MeansEnv<'_>) -> MeansThreads {
    single_thread(CorruptMeans(env.memory.ranges(RangeUse::Plain)))
}

struct HangMeans;

struct CorruptMeans(Vec<OwnedRange<'static>>);

impl Means for HangMeans {
    fn step(&mut self, context: &mut ThreadContext) -> Result<(), StepFailure> {
        context.status.begin_action("stand", 0..0);
        loop {
            std::thread::park();
        }
    }
}

impl Means for CorruptMeans {
    fn step(&mut self, context: &mut ThreadContext) -> Result<(), StepFailure> {
        let lot = context.random_range(&mut self.0);
        let page = context.random_pages(lot).start;
        lot.write(page..page + 1);
        context.begin_action("spoil", lot, &(page..page + 1));
        lot.words_of(page..page + 1)[7].fetch_sub(1, Relaxed);
        Ok(lot.check(page..page + 1)?)
    }
}
