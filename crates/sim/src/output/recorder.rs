//! Observation of a run: points of the time series, the picture before the first action, observers.

use nodeward_scenario::Scenario;
use serde::Serialize;

use crate::cpu::{CpuTimeKind, Op, TaskId};
use crate::events::SimEvent;
use crate::memory::Zone;
use crate::statistics::{CpuTurn, NodePoint, Observer, Point, Series};
use crate::world::{TurnWork, World};

/// State for reports of the run.
pub struct Recorder {
    pub series: Series,
    /// The memory before the first action; without actions, when all memory was populated.
    pub before: Option<ResidencySnapshot>,
    /// Local and remote lines of each workload.
    pub workload_lines: Vec<[u64; 2]>,
    pub next_ns: u64,
    pub observer: Option<Box<dyn Observer>>,
}

/// The moment of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Moment {
    /// Just before the first action of the scenario.
    FirstAction,
    /// When no more pages were faulted in.
    Populated,
    /// The end of the run.
    End,
}

/// Memory placement at a moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ResidencySnapshot {
    /// The moment.
    pub moment: Moment,
    /// Its time, in virtual nanoseconds.
    pub at_ns: u64,
    /// Base pages of all processes on each node, in the order of the machine.
    pub pages: Vec<u64>,
}

impl Recorder {
    /// Creates an empty state.
    pub fn new(scenario: &Scenario) -> Self {
        Self {
            series: Series::new(scenario.sample_ns),
            before: None,
            workload_lines: vec![[0; 2]; scenario.workloads.len()],
            next_ns: 0,
            observer: None,
        }
    }

    /// Counts local and remote lines of a workload, by its index.
    pub fn record_lines(&mut self, workload: Option<usize>, lines: [u64; 2]) {
        if let Some(sums) = workload.and_then(|index| self.workload_lines.get_mut(index)) {
            sums.iter_mut().zip(lines).for_each(|(sum, more)| *sum += more);
        }
    }
}

impl World {
    /// Sets the observer that receives events from now on.
    pub fn set_observer(&mut self, observer: Box<dyn Observer>) {
        self.recorder.observer = Some(observer);
    }

    /// Plans samples: one at the beginning, and one just before the first action.
    pub(crate) fn plan_samples(&mut self) {
        self.events.plan(0, SimEvent::Sample);
        if let Some(first) = self.scenario.actions.iter().map(|action| action.at_ns).min() {
            self.events.plan(first.saturating_sub(1), SimEvent::Sample);
        }
    }

    /// Takes a sample of the whole machine.
    pub(crate) fn sample(&mut self) {
        self.record_before();
        if self.now_ns < self.recorder.next_ns {
            return; // the sample before the first action
        }
        let point = self.point();
        if let Some(observer) = &mut self.recorder.observer {
            observer.point(&point);
        }
        self.recorder.series.push(point);
        self.recorder.next_ns = self.now_ns + self.recorder.series.every_ns();
        self.events.plan(self.recorder.next_ns, SimEvent::Sample);
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

    /// Returns the present point.
    pub(crate) fn point(&self) -> Point {
        let node = |node: usize| NodePoint {
            free_pages: self.memory.free(node),
            bytes_per_s: self.traffic.delivered_bytes_per_us(node) * 1_000_000,
        };
        Point {
            at_ns: self.now_ns,
            local_lines: self.counters.local_lines,
            remote_lines: self.counters.remote_lines,
            migrated_pages: self.counters.migrated_pages,
            fault_pages: self.counters.lazy_pages,
            called_pages: self.counters.called_pages,
            busy_cpus: self.sched.running(),
            nodes: (0..self.machine.nodes.len()).map(node).collect(),
        }
    }

    pub(crate) fn record_before(&mut self) {
        if self.recorder.before.is_some() {
            return;
        }
        let first = self.scenario.actions.iter().map(|action| action.at_ns).min();
        let moment = match first {
            Some(first) if self.now_ns + 1 >= first => Moment::FirstAction,
            None if self.is_population_complete() => Moment::Populated,
            _ => return,
        };
        self.recorder.before = Some(self.residency_snapshot(moment));
    }

    /// Returns whether pages are in use, and no more than at the last sample.
    pub(crate) fn is_population_complete(&self) -> bool {
        let free = |node: usize| self.memory.free(node);
        let Some(last) = self.recorder.series.points().last() else { return false };
        let same = last.nodes.iter().enumerate().all(|(node, was)| was.free_pages == free(node));
        let is_used = |(node, zone): (usize, &Zone)| free(node) < zone.managed_pages;
        same && self.memory.zones.iter().enumerate().any(is_used) && self.counters.freed_pages == 0
    }

    /// Returns the present placement of the memory of processes.
    pub(crate) fn residency_snapshot(&self, moment: Moment) -> ResidencySnapshot {
        let nodes = self.machine.nodes.len();
        let mut pages = vec![0; nodes];
        for space in &self.spaces {
            let counts = space.count_all(nodes);
            pages.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        }
        ResidencySnapshot { moment, at_ns: self.now_ns, pages }
    }

    /// Returns whether a CPU is in the middle of a turn.
    pub(crate) fn is_in_turn(&self, cpu: usize) -> bool {
        self.cpus[cpu].turn_work.is_some()
    }

    /// Returns the time at which the last turn of a CPU began, in virtual nanoseconds.
    pub(crate) fn turn_began_ns(&self, cpu: usize) -> u64 {
        self.cpus[cpu].turn_began_ns
    }

    /// Reports to the observer that the turn of a CPU ends now.
    pub(crate) fn observe_turn(&mut self, cpu: usize) {
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

    /// Reports to the observer that a CPU is interrupted now.
    pub(crate) fn observe_interrupt(&mut self, cpu: usize, ns: u64) {
        if let Some(observer) = self.recorder.observer.as_mut().filter(|_| ns > 0) {
            observer.interrupted(self.now_ns, cpu, ns);
        }
    }
}
