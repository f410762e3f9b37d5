//! Programs that alternate between work and rest.

use nodeward_scenario::{DutyCycle, Workload};

use crate::cpu::Op;
use crate::ids::TaskId;
use crate::world::{TaskProgram, World};

/// Returns a program with the rests of its workload, if it has any.
pub fn with_duty_cycle(program: Box<dyn TaskProgram>, workload: &Workload) -> Box<dyn TaskProgram> {
    match workload.duty_cycle {
        None => program,
        Some(of) => Box::new(DutyCycled::new(program, of, workload.start_ns)),
    }
}

/// A program that rests at intervals. A rest begins when the operation in progress is done.
struct DutyCycled {
    program: Box<dyn TaskProgram>,
    duty_cycle: DutyCycle,
    /// Start of its first period of work, in virtual nanoseconds.
    start_ns: u64,
}

impl DutyCycled {
    /// Wraps a program that begins at `start_ns`.
    pub fn new(program: Box<dyn TaskProgram>, duty_cycle: DutyCycle, start_ns: u64) -> Self {
        Self { program, duty_cycle, start_ns }
    }
}

impl TaskProgram for DutyCycled {
    fn next(&mut self, world: &mut World, task: TaskId) -> Op {
        let DutyCycle { busy_ns: works_ns, idle_ns: rests_ns } = self.duty_cycle;
        let whole_ns = works_ns.saturating_add(rests_ns).max(1);
        let since_ns = world.now_ns.saturating_sub(self.start_ns);
        match since_ns % whole_ns < works_ns {
            true => self.program.next(world, task),
            false => Op::Sleep(world.now_ns + whole_ns - since_ns % whole_ns),
        }
    }

    fn populate(&mut self, world: &mut World, task: TaskId) {
        self.program.populate(world, task);
    }
}
