//! What a CPU does when a turn ends: it chooses a task, and begins the next turn.

use crate::arithmetic::mul_div;
use crate::cpu::{LineCopy, Op, TURN_NS, TaskState, TurnWork};
use crate::hardware::Flow;
use crate::ids::TaskId;
use crate::statistics::CpuTimeKind;
use crate::world::World;

impl World {
    /// Ends a turn and begins the next one.
    pub(crate) fn run_next_turn(&mut self, cpu: usize) {
        self.end_turn(cpu);
        self.continue_or_deschedule(cpu);
        while self.cpus[cpu].running.is_none() {
            let next = self.pick_next_task(cpu).or_else(|| self.pull_task(cpu));
            let Some(task) = next else { return };
            self.switch_to(cpu, task);
            self.begin_turn(cpu, task);
        }
        self.push_queued_tasks(cpu);
    }

    /// Decides whether the task continues after its turn, and if so begins its next turn.
    fn continue_or_deschedule(&mut self, cpu: usize) {
        let Some(task) = self.cpus[cpu].running else { return };
        let others = self.cpus[cpu].run_queue.len() > 0;
        let called = std::mem::take(&mut self.cpus[cpu].need_resched);
        let over = self.cpus[cpu].slice_ns == 0 || called;
        // The task was rescheduled if it may not run here any longer.
        let allowed = &self.tasks[task as usize].allowed;
        let may_stay = !called || allowed.contains(cpu) && !self.is_nudged(task);
        if over && others || self.has_urgent(cpu) || !may_stay {
            self.set_running(cpu, None);
            self.tasks[task as usize].last_ran_ns = self.now_ns;
            self.put_prev_task(cpu, task);
        } else {
            if self.cpus[cpu].slice_ns == 0 {
                self.cpus[cpu].slice_ns = self.machine.params.slice_ns;
            }
            self.begin_turn(cpu, task);
        }
    }

    /// Returns whether an urgent task waits for a CPU whose own task is not urgent.
    fn has_urgent(&self, cpu: usize) -> bool {
        let is_urgent = |task: TaskId| self.tasks[task as usize].urgent;
        let running = self.cpus[cpu].running;
        !running.is_some_and(is_urgent) && self.cpus[cpu].run_queue.first().is_some_and(is_urgent)
    }

    /// Puts a task on a CPU.
    fn switch_to(&mut self, cpu: usize, task: TaskId) {
        let slice = self.machine.params.slice_ns;
        self.set_running(cpu, Some(task));
        self.record_wake_latency(task);
        let entry = &mut self.cpus[cpu];
        entry.slice_ns = slice;
        entry.need_resched = false;
        if entry.last_task.replace(task) != Some(task) {
            entry.pending_interrupt_ns += self.machine.params.switch_ns;
            self.counters.switches += 1;
        }
        let entry = &mut self.tasks[task as usize];
        entry.state = TaskState::Running;
        entry.cpu = cpu;
        if let Some(space) = entry.space {
            self.record_tlb_cpu(task, space, cpu);
        }
    }

    /// Begins the next operation of a task. The CPU has no task afterwards if the task waits or
    /// ends.
    fn begin_turn(&mut self, cpu: usize, task: TaskId) {
        let op = self.next_op(task);
        let slice = self.cpus[cpu].slice_ns.max(1);
        match op {
            Op::Busy(CpuTimeKind::User, ns) => {
                let speed = self.speed_milli(cpu);
                let turn = (ns.saturating_mul(1000) / speed).min(slice).min(TURN_NS);
                self.start_turn(cpu, TurnWork::Busy(CpuTimeKind::User, speed), turn);
            }
            Op::Busy(spent, ns) => self.start_turn(cpu, TurnWork::Busy(spent, 1000), ns),
            Op::Copy(copying) => self.begin_copy(cpu, copying, TURN_NS),
            Op::Access(lines) => self.begin_access(cpu, task, &lines, slice.min(TURN_NS)),
            Op::Wait | Op::Sleep(_) | Op::Exit => self.block_or_exit(cpu, task, op),
        }
    }

    /// Begins to copy at the present rate.
    pub(crate) fn begin_copy(&mut self, cpu: usize, copying: LineCopy, most_ns: u64) {
        let line_ps = self.copy_line_ps(cpu, &copying);
        let place = &self.layout.cpus[cpu];
        let (complex, from) = (place.complex, place.node);
        let rate = self.machine.params.line_bytes.saturating_mul(1_000_000) / line_ps;
        let written = mul_div(rate, self.machine.params.copy_writes_milli, 1000);
        for (to, rate) in [(copying.from, rate), (copying.to, written)] {
            self.cpus[cpu].begin_flow(&mut self.traffic, Flow { complex, from, to, rate });
        }
        let all = (u128::from(copying.lines) * u128::from(line_ps)).div_ceil(1000);
        let ns = u64::try_from(all).unwrap_or(u64::MAX).min(most_ns);
        self.start_turn(cpu, TurnWork::Copy { line_ps }, ns);
    }
}
