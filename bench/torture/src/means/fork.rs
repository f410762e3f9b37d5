//! fork: children see the memory as it was, whatever moves in parent or child.

use nodeward_linux::interference::{ChildExit, ForkedChild, fork_and_run};

use crate::means_thread::{Means, MeansEnv, MeansThreads, single_thread};
use crate::owned_range::OwnedRange;
use crate::test_memory::RangeUse;
use crate::thread_context::{StepFailure, ThreadContext, failure};

pub const WHAT: &str = "fork: a child checks all that it has inherited, while its parent writes";

/// Exit codes of a child.
const RIGHT: u8 = 0;
const WRONG: u8 = 7;

struct Fork(Vec<OwnedRange<'static>>);

pub fn make(env: &mut MeansEnv<'_>) -> MeansThreads {
    single_thread(Fork(env.memory.ranges(RangeUse::Inherited)))
}

impl Means for Fork {
    fn step(&mut self, context: &mut ThreadContext) -> Result<(), StepFailure> {
        for lot in &mut self.0 {
            context.check_and_write(lot)?;
        }
        context.status.begin_action("fork", 0..0);
        let lots = &self.0;
        let child = fork_and_run(|| check_in_child(lots)).map_err(failure("fork"))?;
        let turned = self.0.iter_mut().try_for_each(|lot| context.check_and_write(lot));
        context.status.begin_action("waitpid", 0..0);
        let ended = end(child)?;
        turned?;
        match ended {
            ChildExit::Code(code) if code == i32::from(RIGHT) => Ok(()),
            ChildExit::Code(code) if code == i32::from(WRONG) => Err(StepFailure::Child),
            end => Err(StepFailure::Failed(format!("a child ended by {end:?}"))),
        }
    }

    fn ranges(&mut self) -> &mut [OwnedRange<'static>] {
        &mut self.0
    }
}

fn end(child: ForkedChild) -> Result<ChildExit, StepFailure> {
    child.wait().map_err(failure("waitpid"))
}

/// Checks all lots, in the child.
fn check_in_child(lots: &[OwnedRange]) -> u8 {
    for lot in lots {
        if let Err(finding) = lot.check(0..lot.pages()) {
            eprintln!("in a child: {finding}");
            return WRONG;
        }
    }
    RIGHT
}
