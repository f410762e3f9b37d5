//! Other programs, started by vfork and exec.

use std::process::{Command, Stdio};

use crate::means_thread::{Means, MeansEnv, MeansThreads, single_thread};
use crate::owned_range::OwnedRange;
use crate::test_memory::RangeUse;
use crate::thread_context::{StepFailure, ThreadContext, failure};

pub const WHAT: &str = "other programs are started, by vfork and exec";

struct ExecMeans(Vec<OwnedRange<'static>>);

pub fn make(env: &mut MeansEnv<'_>) -> MeansThreads {
    single_thread(ExecMeans(env.memory.ranges(RangeUse::Plain)))
}

impl Means for ExecMeans {
    fn step(&mut self, context: &mut ThreadContext) -> Result<(), StepFailure> {
        let lot = context.random_range(&mut self.0);
        context.check_and_write(lot)?;
        context.status.begin_action("exec", 0..0);
        let mut command = Command::new("/proc/self/exe");
        let status = command.arg("--version").stdout(Stdio::null()).status();
        let status = status.map_err(failure("exec"))?;
        if !status.success() {
            return Err(StepFailure::Failed(format!(
                "a program that was started ended by {status}"
            )));
        }
        context.check_and_write(lot)
    }

    fn ranges(&mut self) -> &mut [OwnedRange<'static>] {
        &mut self.0
    }
}
