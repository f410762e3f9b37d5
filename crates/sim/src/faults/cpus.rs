//! CPUs that are taken offline and brought back (CPU hotplug).
//!
//! An offline CPU is in no task's set of allowed CPUs, and code that chooses a CPU consults that
//! set. Little else needs to know.

use std::collections::{BTreeMap, VecDeque};

use nodeward_model::Cpumask;

use super::Hotplug;
use crate::task::{CpuSet, Op, Program, Spent, State, TaskId};
use crate::world::World;

/// Interval at which the last task's departure from a CPU is checked, in virtual nanoseconds.
const LOOK_NS: u64 = 50_000;

/// The CPUs that are offline.
#[derive(Debug, Default)]
pub struct CpusOff {
    off: CpuSet,
    count: usize,
    /// The CPUs that a task could use if all CPUs were online, for tasks where that makes a
    /// difference.
    wanted: BTreeMap<TaskId, CpuSet>,
}

impl CpusOff {
    fn put(&mut self, cpu: usize, is_off: bool) {
        if self.off.contains(cpu) != is_off {
            self.off.put(cpu, is_off);
            self.count = if is_off { self.count + 1 } else { self.count - 1 };
        }
    }
}

impl World {
    /// Returns whether a CPU is online, by index.
    pub(crate) fn is_on(&self, cpu: usize) -> bool {
        !self.faults.cpus_off.off.contains(cpu)
    }

    /// Returns the CPUs that are online, by number.
    pub(crate) fn cpus_on(&self) -> Cpumask {
        let places = self.layout.cpus.iter().enumerate();
        places.filter(|&(cpu, _)| self.is_on(cpu)).map(|(_, place)| place.id).collect()
    }

    fn indices_of(&self, cpus: &Cpumask) -> VecDeque<usize> {
        let places = self.layout.cpus.iter().enumerate();
        places.filter(|(_, place)| cpus.contains(place.id)).map(|(cpu, _)| cpu).collect()
    }

    /// Begins to take CPUs offline.
    pub(crate) fn take_cpus(&mut self, action: usize, cpus: &Cpumask) {
        let record = self.begin_hotplug(action);
        let left = self.indices_of(cpus);
        self.start_kernel_task(None, Box::new(TakeDown { record, left, leaving: None }));
    }

    /// Brings CPUs back online.
    pub(crate) fn give_cpus(&mut self, action: usize, cpus: &Cpumask) {
        let record = self.begin_hotplug(action);
        for cpu in self.indices_of(cpus) {
            match self.is_on(cpu) {
                true => self.hotplugs[record].stayed += 1,
                false => {
                    self.hotplugs[record].done += 1;
                    self.switch_cpu(cpu, true);
                    self.interrupt(cpu, 0);
                }
            }
        }
        self.hotplugs[record].ended_ns = Some(self.now_ns);
    }

    /// Switches a CPU off or on, for everything that chooses a CPU.
    fn switch_cpu(&mut self, cpu: usize, on: bool) {
        self.faults.cpus_off.put(cpu, !on);
        (0..self.tasks.len()).for_each(|task| self.confine(task as TaskId));
        self.note_switched(cpu, on);
    }

    /// Removes offline CPUs from a task's allowed set. A task without any other CPU may run
    /// anywhere, as in Linux (`select_fallback_rq`).
    pub(crate) fn confine(&mut self, task: TaskId) {
        let CpusOff { off, count, wanted } = &mut self.faults.cpus_off;
        let entry = &mut self.tasks[task as usize];
        if *count == 0 && wanted.is_empty() || entry.state == State::Ended {
            wanted.remove(&task);
            return;
        }
        let all = wanted.remove(&task).unwrap_or_else(|| entry.allowed.clone());
        let fit = CpuSet::of(all.iter().filter(|&cpu| !off.contains(cpu)));
        entry.allowed = match fit.is_empty() {
            true => CpuSet::of((0..self.cpus.len()).filter(|&cpu| !off.contains(cpu))),
            false => fit,
        };
        if entry.allowed != all {
            wanted.insert(task, all);
        }
    }

    /// Forgets the earlier allowed CPUs of a task, because a new set was given to it.
    pub(crate) fn confine_anew(&mut self, task: TaskId) {
        self.faults.cpus_off.wanted.remove(&task);
    }

    /// Switches a CPU off and moves its tasks elsewhere.
    fn take_cpu(&mut self, cpu: usize) {
        self.switch_cpu(cpu, false);
        self.empty_line(cpu);
        self.reschedule(cpu);
    }
}

/// Program that takes CPUs offline, one after the other.
struct TakeDown {
    record: usize,
    left: VecDeque<usize>,
    /// The CPU that is waiting for its tasks to leave.
    leaving: Option<usize>,
}

impl Program for TakeDown {
    fn next(&mut self, world: &mut World, task: TaskId) -> Op {
        loop {
            if let Some(cpu) = self.leaving.filter(|&cpu| !world.is_on(cpu)) {
                if world.cpus[cpu].running.is_some() {
                    return Op::Sleep(world.now_ns + LOOK_NS);
                }
                self.leaving = None;
                world.hotplugs[self.record].done += 1;
                let by = world.tasks[task as usize].cpu;
                let ns = world.empty_lists(by, cpu, world.now_ns) - world.now_ns;
                if ns > 0 {
                    return Op::Busy(Spent::Kernel, ns);
                }
            } else if self.leaving.take().is_some() {
                world.hotplugs[self.record].stayed += 1; // it was brought back meanwhile
            }
            let Some(cpu) = self.left.pop_front() else {
                world.hotplugs[self.record].ended_ns = Some(world.now_ns);
                return Op::Exit;
            };
            let is_last = world.faults.cpus_off.count + 1 == world.cpus.len();
            if is_last || !world.is_on(cpu) {
                world.hotplugs[self.record].stayed += 1;
                continue;
            }
            world.take_cpu(cpu);
            self.leaving = Some(cpu);
        }
    }
}

/// Describes the outcome in words.
pub(super) fn outcome(record: &Hotplug) -> String {
    let stayed = match record.stayed {
        0 => String::new(),
        count => format!(", {count} stay as they are"),
    };
    format!("{} done{stayed}", record.done)
}
