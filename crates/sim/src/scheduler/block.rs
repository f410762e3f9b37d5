//! Tasks that give up their CPU: to wait, to sleep, or because they end.

use crate::cpu::{Op, TaskState};
use crate::events::SimEvent;
use crate::ids::TaskId;
use crate::world::World;

impl World {
    pub(crate) fn block_or_exit(&mut self, cpu: usize, task: TaskId, op: Op) {
        self.set_running(cpu, None);
        let entry = &mut self.tasks[task as usize];
        entry.last_ran_ns = self.now_ns;
        entry.state = TaskState::Waiting;
        match op {
            Op::Sleep(until) => self.events.plan(until.max(self.now_ns + 1), SimEvent::Wake(task)),
            Op::Exit => {
                entry.state = TaskState::Ended;
                if entry.space.is_some() {
                    self.cpus[cpu].run_queue.record_exit(entry.vruntime_ns);
                }
            }
            _ => {}
        }
    }
}
