//! CPUs that are taken offline and brought back (CPU hotplug).
//!
//! An offline CPU is in no task's set of allowed CPUs, and code that chooses a CPU consults that
//! set. Little else needs to know.

use std::collections::VecDeque;

use nodeward_model::Cpumask;

use crate::cpu::Op;
use crate::ids::TaskId;
use crate::statistics::CpuTimeKind;
use crate::world::{TaskProgram, World};

/// Interval at which the last task's departure from a CPU is checked, in virtual nanoseconds.
const POLL_NS: u64 = 50_000;

impl World {
    fn indices_of(&self, cpus: &Cpumask) -> VecDeque<usize> {
        let places = self.layout.cpus.iter().enumerate();
        places.filter(|(_, place)| cpus.contains(place.id)).map(|(cpu, _)| cpu).collect()
    }

    /// Begins to take CPUs offline.
    pub(crate) fn start_cpu_offline(&mut self, action: usize, cpus: &Cpumask) {
        let record = self.begin_hotplug(action);
        let left = self.indices_of(cpus);
        self.start_kernel_task(None, Box::new(CpuOffline { record, left, draining: None }));
    }

    /// Brings CPUs back online.
    pub(crate) fn bring_cpus_online(&mut self, action: usize, cpus: &Cpumask) {
        let record = self.begin_hotplug(action);
        for cpu in self.indices_of(cpus) {
            match self.is_cpu_online(cpu) {
                true => self.hotplugs[record].stayed += 1,
                false => {
                    self.hotplugs[record].done += 1;
                    self.set_cpu_online(cpu, true);
                    self.kick_cpu(cpu, 0);
                }
            }
        }
        self.hotplugs[record].ended_ns = Some(self.now_ns);
    }

    /// Switches a CPU off or on, for everything that chooses a CPU.
    fn set_cpu_online(&mut self, cpu: usize, on: bool) {
        self.offline_cpus.set_offline(cpu, !on);
        let cpus = self.cpus.len();
        for (id, task) in (0..).zip(&mut self.tasks) {
            self.offline_cpus.restrict(id, task, cpus);
        }
        self.set_sched_online(cpu, on);
    }

    /// Switches a CPU off and moves its tasks elsewhere.
    fn take_cpu_offline(&mut self, cpu: usize) {
        self.set_cpu_online(cpu, false);
        self.evacuate_queue(cpu);
        self.resched_cpu(cpu);
    }
}

/// Program that takes CPUs offline, one after the other.
struct CpuOffline {
    record: usize,
    left: VecDeque<usize>,
    /// The CPU that is waiting for its tasks to leave.
    draining: Option<usize>,
}

impl TaskProgram for CpuOffline {
    fn next(&mut self, world: &mut World, task: TaskId) -> Op {
        loop {
            if let Some(cpu) = self.draining.filter(|&cpu| !world.is_cpu_online(cpu)) {
                if world.cpus[cpu].running.is_some() {
                    return Op::Sleep(world.now_ns + POLL_NS);
                }
                self.draining = None;
                world.hotplugs[self.record].done += 1;
                let by = world.tasks[task as usize].cpu;
                let now_ns = world.now_ns;
                let ns = world.mm().drain_cpu_lists(by, cpu, now_ns) - now_ns;
                if ns > 0 {
                    return Op::Busy(CpuTimeKind::Kernel, ns);
                }
            } else if self.draining.take().is_some() {
                world.hotplugs[self.record].stayed += 1; // it was brought back meanwhile
            }
            let Some(cpu) = self.left.pop_front() else {
                world.hotplugs[self.record].ended_ns = Some(world.now_ns);
                return Op::Exit;
            };
            let is_last = world.offline_cpus.count() + 1 == world.cpus.len();
            if is_last || !world.is_cpu_online(cpu) {
                world.hotplugs[self.record].stayed += 1;
                continue;
            }
            world.take_cpu_offline(cpu);
            self.draining = Some(cpu);
        }
    }
}
