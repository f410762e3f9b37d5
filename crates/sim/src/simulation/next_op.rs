//! The choice of a task's next operation.

use crate::cpu::Op;
use crate::ids::TaskId;
use crate::statistics::CpuTimeKind;
use crate::world::World;

/// Number of decisions without a use of time after which a program uses a nanosecond. Time then
/// advances even where nothing costs anything.
const INSTANT_OPS_MAX: u32 = 1_000;

impl World {
    /// Returns the operation in progress of a task, or else its next one.
    pub(crate) fn next_op(&mut self, task: TaskId) -> Op {
        for _ in 0..INSTANT_OPS_MAX {
            let (is_ended, is_frozen) = (self.is_exiting(task), self.is_frozen(task));
            let entry = &mut self.tasks[task as usize];
            match entry.op {
                Some(Op::Busy(spent, ns)) if spent != CpuTimeKind::User && ns > 0 => {
                    return Op::Busy(spent, ns);
                }
                _ if is_ended => {}
                _ if is_frozen => {
                    self.record_frozen(task);
                    return Op::Wait;
                }
                Some(Op::Busy(_, 0)) | None => {}
                Some(Op::Access(lines)) if lines.lines == 0 => {}
                Some(Op::Copy(copying)) if copying.lines == 0 => {}
                Some(Op::Wait) if std::mem::take(&mut entry.wakeup_pending) => {}
                Some(op) => return op,
            }
            let program = self.programs[task as usize].take();
            let mut program = program.expect("a task decides once at a time");
            let mut op = if is_ended { Op::Exit } else { program.next(self, task) };
            if matches!(op, Op::Exit)
                && let Some(last) = self.exit_task(task)
            {
                program = last;
                op = program.next(self, task);
            }
            self.programs[task as usize] = Some(program);
            self.tasks[task as usize].op = Some(op);
        }
        let pause = Op::Busy(CpuTimeKind::Kernel, 1);
        self.tasks[task as usize].op = Some(pause);
        pause
    }
}
