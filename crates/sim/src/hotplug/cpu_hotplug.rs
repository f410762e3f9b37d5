//! CPUs that are taken offline and brought back (CPU hotplug).
//!
//! An offline CPU is in no task's set of allowed CPUs, and code that chooses a CPU consults that
//! set. Little else needs to know.

use std::collections::{BTreeMap, VecDeque};

use nodeward_model::Cpumask;

use crate::cpu::{CpuIndexSet, CpuTimeKind, Op, TaskId, TaskState};
use crate::faults::HotplugRecord;
use crate::world::{TaskProgram, World};

/// Interval at which the last task's departure from a CPU is checked, in virtual nanoseconds.
pub const POLL_NS: u64 = 50_000;

/// The CPUs that are offline.
#[derive(Debug, Default)]
pub struct OfflineCpus {
    pub cpus: CpuIndexSet,
    pub count: usize,
    /// The CPUs that a task could use if all CPUs were online, for tasks where that makes a
    /// difference.
    pub requested: BTreeMap<TaskId, CpuIndexSet>,
}

impl OfflineCpus {
    pub fn set_offline(&mut self, cpu: usize, is_off: bool) {
        if self.cpus.contains(cpu) != is_off {
            self.cpus.set(cpu, is_off);
            self.count = if is_off { self.count + 1 } else { self.count - 1 };
        }
    }
}

impl World {
    /// Returns whether a CPU is online, by index.
    pub(crate) fn is_cpu_online(&self, cpu: usize) -> bool {
        !self.fault_model.offline_cpus.cpus.contains(cpu)
    }

    /// Returns the CPUs that are online, by number.
    pub(crate) fn online_cpus(&self) -> Cpumask {
        let places = self.layout.cpus.iter().enumerate();
        places.filter(|&(cpu, _)| self.is_cpu_online(cpu)).map(|(_, place)| place.id).collect()
    }

    pub(crate) fn indices_of(&self, cpus: &Cpumask) -> VecDeque<usize> {
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
    pub(crate) fn set_cpu_online(&mut self, cpu: usize, on: bool) {
        self.fault_model.offline_cpus.set_offline(cpu, !on);
        (0..self.tasks.len()).for_each(|task| self.restrict_to_online(task as TaskId));
        self.set_sched_online(cpu, on);
    }

    /// Removes offline CPUs from a task's allowed set. A task without any other CPU may run
    /// anywhere, as in Linux (`select_fallback_rq`).
    pub(crate) fn restrict_to_online(&mut self, task: TaskId) {
        let OfflineCpus { cpus: off, count, requested: wanted } =
            &mut self.fault_model.offline_cpus;
        let entry = &mut self.tasks[task as usize];
        if *count == 0 && wanted.is_empty() || entry.state == TaskState::Ended {
            wanted.remove(&task);
            return;
        }
        let all = wanted.remove(&task).unwrap_or_else(|| entry.allowed.clone());
        let fit = CpuIndexSet::of(all.iter().filter(|&cpu| !off.contains(cpu)));
        entry.allowed = match fit.is_empty() {
            true => CpuIndexSet::of((0..self.cpus.len()).filter(|&cpu| !off.contains(cpu))),
            false => fit,
        };
        if entry.allowed != all {
            wanted.insert(task, all);
        }
    }

    /// Forgets the earlier allowed CPUs of a task, because a new set was given to it.
    pub(crate) fn forget_requested_cpus(&mut self, task: TaskId) {
        self.fault_model.offline_cpus.requested.remove(&task);
    }

    /// Switches a CPU off and moves its tasks elsewhere.
    pub(crate) fn take_cpu_offline(&mut self, cpu: usize) {
        self.set_cpu_online(cpu, false);
        self.evacuate_queue(cpu);
        self.resched_cpu(cpu);
    }
}

/// Program that takes CPUs offline, one after the other.
pub struct CpuOffline {
    pub record: usize,
    pub left: VecDeque<usize>,
    /// The CPU that is waiting for its tasks to leave.
    pub draining: Option<usize>,
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
                let ns = world.drain_cpu_lists(by, cpu, world.now_ns) - world.now_ns;
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
            let is_last = world.fault_model.offline_cpus.count + 1 == world.cpus.len();
            if is_last || !world.is_cpu_online(cpu) {
                world.hotplugs[self.record].stayed += 1;
                continue;
            }
            world.take_cpu_offline(cpu);
            self.draining = Some(cpu);
        }
    }
}

/// Describes the outcome in words.
pub fn cpu_outcome(record: &HotplugRecord) -> String {
    let stayed = match record.stayed {
        0 => String::new(),
        count => format!(", {count} stay as they are"),
    };
    format!("{} done{stayed}", record.done)
}
