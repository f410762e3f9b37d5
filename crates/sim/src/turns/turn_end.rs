//! The end of a turn: what the task did in it.

use nodeward_scenario::WorkloadKind;

use crate::arithmetic::mul_div;
use crate::cpu::{LineAccess, Op, TurnWork};
use crate::ids::TaskId;
use crate::statistics::{CpuTimeKind, CpuTurn};
use crate::world::World;

impl World {
    /// Accounts for the work done since the turn began.
    pub(crate) fn end_turn(&mut self, cpu: usize) {
        self.observe_turn(cpu);
        self.sample_turn(cpu);
        let entry = &mut self.cpus[cpu];
        let (Some(doing), Some(id)) = (entry.turn_work.take(), entry.running) else { return };
        let ran = self.now_ns.saturating_sub(entry.turn_began_ns);
        let late = entry.turn_began_ns.saturating_sub(self.now_ns);
        let lead = entry.turn_interrupt_ns.saturating_sub(late);
        entry.pending_interrupt_ns += entry.turn_interrupt_ns - lead;
        entry.busy_ns += ran + lead;
        entry.slice_ns = entry.slice_ns.saturating_sub(ran + lead);
        self.counters.record_cpu_time(CpuTimeKind::Kernel, lead);
        for flow in entry.flows.drain(..) {
            self.traffic.end(flow);
        }
        let task = &mut self.tasks[id as usize];
        task.cpu_time_ns += ran;
        task.vruntime_ns += ran;
        entry.run_queue.advance_min_vruntime(task.vruntime_ns);
        let op = task.op.as_mut().expect("a task on a CPU does something");
        match (doing, op) {
            (TurnWork::Busy(spent, speed), Op::Busy(_, left)) => {
                self.counters.record_cpu_time(spent, ran);
                *left = left.saturating_sub(mul_div(ran, speed, 1000).max(1));
            }
            (
                TurnWork::Access { line_ps, local_milli, hit_milli, walk_milli },
                Op::Access(lines),
            ) => {
                self.counters.record_cpu_time(CpuTimeKind::User, ran);
                let done = (u128::from(ran) * 1000 / u128::from(line_ps)) as u64;
                let rest = if ran > 0 { (done + 1).min(lines.lines) } else { 0 };
                // A turn that lasted as long as its lines completed them all, despite rounding.
                let done = if rest == lines.lines { rest } else { done };
                lines.lines -= done;
                let lines = *lines;
                let rates = [local_milli, hit_milli, walk_milli];
                self.record_access(cpu, id, &lines, done, rates);
            }
            (TurnWork::Copy { line_ps }, Op::Copy(copying)) => {
                self.counters.record_cpu_time(CpuTimeKind::Copy, ran);
                copying.lines -= (ran * 1000).div_ceil(line_ps).min(copying.lines);
            }
            (TurnWork::Fault, Op::Access(_)) => {
                self.counters.record_cpu_time(CpuTimeKind::Fault, ran);
            }
            (doing, op) => unreachable!("{doing:?} of {op:?}"),
        }
    }

    /// Records that a task's turn went through `done` lines. The rates are per 1000: local misses
    /// of all misses, cache hits and page-table walks of all lines.
    fn record_access(
        &mut self,
        cpu: usize,
        id: TaskId,
        lines: &LineAccess,
        done: u64,
        [local_milli, hit_milli, walk_milli]: [u64; 3],
    ) {
        let (part, misses) = (lines.range, done * (1000 - hit_milli) / 1000);
        let local = misses * local_milli / 1000;
        let workload = self.tasks[id as usize].workload;
        self.counters.record_lines(done, local_milli, hit_milli, walk_milli);
        self.recorder.record_lines(workload, [local, misses - local]);
        let kind = workload.map(|index| &self.scenario.workloads[index].kind);
        if !matches!(kind, Some(WorkloadKind::Compile { .. })) {
            self.count_work(id, done); // those count lives
        }
        let (from, region) =
            (self.layout.node_of(cpu), &self.spaces[part.space].regions[part.region]);
        self.memory.accesses.sample(&mut self.rng, from, &part, region, misses);
        if lines.pattern.writes_milli > 0 {
            let turn_ns = [self.cpus[cpu].turn_began_ns, self.now_ns];
            self.fault_model.contents.record_writes(cpu, &part, region, turn_ns);
            let copies_ns = self.copy_on_write(cpu, lines, done);
            let faults_ns = self.soft_dirty_faults(cpu, id, lines, done);
            for ns in [copies_ns, faults_ns].into_iter().flatten() {
                self.charge_interrupt(cpu, ns);
            }
        }
    }

    /// Counts the work of a task for its workload.
    pub(crate) fn count_work(&mut self, task: TaskId, count: u64) {
        let Some(index) = self.tasks[task as usize].workload else { return };
        if let Some(space) = self.tasks[task as usize].space {
            self.spaces[space].work_done += count;
        }
        let name = &self.scenario.workloads[index].name;
        match self.counters.work_done.get_mut(name) {
            Some(sum) => *sum += count,
            None => drop(self.counters.work_done.insert(name.clone(), count)),
        }
    }

    /// Reports to the observer that the turn of a CPU ends now.
    fn observe_turn(&mut self, cpu: usize) {
        let Some(observer) = &mut self.recorder.observer else { return };
        let entry = &self.cpus[cpu];
        let (Some(doing), Some(task)) = (entry.turn_work, entry.running) else { return };
        let space = self.tasks[task as usize].space.map(|space| &self.spaces[space]);
        observer.turn(&CpuTurn {
            cpu,
            began_ns: entry.turn_began_ns.saturating_sub(entry.turn_interrupt_ns),
            ended_ns: self.now_ns,
            task,
            process: space.map(|space| (space.name.as_str(), space.pid.number())),
            spent: match (doing, &self.tasks[task as usize].op) {
                (_, Some(Op::Busy(spent, _))) => *spent,
                (_, Some(Op::Copy(_))) => CpuTimeKind::Copy,
                (TurnWork::Fault, _) => CpuTimeKind::Fault,
                _ => CpuTimeKind::User,
            },
        });
    }
}
