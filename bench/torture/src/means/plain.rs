//! Plain reads and writes.

use crate::means_thread::{Means, MeansEnv, MeansThreads};
use crate::owned_range::OwnedRange;
use crate::test_memory::RangeUse;
use crate::thread_context::{StepFailure, ThreadContext};

pub const WHAT: &str = "reads and writes, each word of it checked";

/// How many times pages are checked and written in a step.
const TURNS: usize = 4;

struct Plain(Vec<OwnedRange<'static>>);

pub fn make(env: &mut MeansEnv<'_>) -> MeansThreads {
    let writer = || -> Box<dyn Means> { Box::new(Plain(env.memory.ranges(RangeUse::Plain))) };
    Ok(std::iter::repeat_with(writer).take(2).collect())
}

impl Means for Plain {
    fn step(&mut self, context: &mut ThreadContext) -> Result<(), StepFailure> {
        (0..TURNS).try_for_each(|_| {
            let lot = context.random_range(&mut self.0);
            context.check_and_write(lot)
        })
    }

    fn ranges(&mut self) -> &mut [OwnedRange<'static>] {
        &mut self.0
    }
}
