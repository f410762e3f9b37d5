//! The state of the scheduler, by node and by task.

use std::collections::VecDeque;

use nodeward_scenario::{MachineSpec, Scenario, SchedulerKind};

use super::nudges::Nudges;
use crate::hardware::{CpuIndexSet, MachineLayout};
use crate::ids::{SpaceId, TaskId};

/// State of the scheduler.
#[derive(Debug)]
pub struct SchedulerState {
    /// Load by node.
    pub nodes: Vec<NodeQueues>,
    /// The position of each CPU in its node.
    pub index_in_node: Vec<usize>,
    /// The nodes with CPUs by distance, for each node.
    pub nodes_by_distance: Vec<Vec<usize>>,
    /// Running tasks by complex.
    pub running_in_complex: Vec<u64>,
    /// Number of tasks in run queues.
    pub queued: u64,
    /// Number of CPUs without a running or waiting task.
    pub idle: u64,
    /// Scheduler state by task.
    pub task_stats: Vec<TaskStats>,
    /// Whether tasks prefer CPUs of their home node.
    pub prefers_home: bool,
    /// Whether tasks on their home node are left there as long as other tasks can be moved.
    pub spares_home: bool,
    /// The online CPUs of each node.
    pub online_cpus: Vec<Vec<usize>>,
    /// The home balancer of 2012, if it is in use.
    pub sched_numa: Option<SchedNuma>,
    /// The time at which each node compares itself with others next.
    pub next_node_balance_ns: Vec<u64>,
    /// Tasks in the kernel that are to move to another CPU when they leave it.
    pub nudges: Nudges,
}

/// Load of the CPUs of a node. Sets hold positions in [`MachineLayout::cpus_of_node`].
#[derive(Clone, Debug, Default)]
pub struct NodeQueues {
    /// Waiting tasks.
    pub queued: u64,
    /// Running tasks.
    pub running: u64,
    /// CPUs without a running or waiting task.
    pub idle: CpuIndexSet,
    /// CPUs of cores of which all threads are idle.
    pub idle_cores: CpuIndexSet,
    /// CPUs with waiting tasks.
    pub queued_cpus: CpuIndexSet,
    /// Waiting tasks by home node.
    pub queued_by_home: Vec<u64>,
    /// Running tasks by home node.
    pub running_by_home: Vec<u64>,
}

/// Scheduler state of a task.
#[derive(Clone, Copy, Debug, Default)]
pub struct TaskStats {
    /// Time of its last move to another CPU.
    pub moved_at_ns: u64,
    /// Time of the wake-up since which it waits for a CPU.
    pub woken_at_ns: Option<u64>,
    /// Time at which it entered the run queue.
    pub queued_at_ns: u64,
    /// Time that it waited in run queues before that.
    pub queued_ns: u64,
    /// The CPU that is known to be in its space's set, and the space's
    /// `tlb_cpus_version` at that time. The knowledge is valid as long as that has not changed.
    pub known_cpu: Option<(u32, u32)>,
}

/// State of the home balancer of 2012, beside the homes of tasks.
#[derive(Clone, Debug, Default)]
pub struct SchedNuma {
    /// All processes; the one that got its home last is last.
    pub spaces_by_age_at_home: VecDeque<SpaceId>,
}

impl SchedulerState {
    /// Creates the scheduler of a machine without tasks.
    pub fn new(machine: &MachineSpec, layout: &MachineLayout, scenario: &Scenario) -> Self {
        let scheduler = scenario.scheduler;
        let count = machine.nodes.len();
        let mut place = vec![0; layout.cpus.len()];
        for cpus in &layout.cpus_of_node {
            cpus.iter().zip(0..).for_each(|(&cpu, at)| place[cpu] = at);
        }
        let load = |node: usize| {
            let all = CpuIndexSet::of(0..layout.cpus_of_node[node].len());
            NodeQueues {
                idle: all.clone(),
                idle_cores: all,
                queued_by_home: vec![0; count],
                running_by_home: vec![0; count],
                ..NodeQueues::default()
            }
        };
        let near = |from: usize| {
            let with_cpus = |&node: &usize| !layout.cpus_of_node[node].is_empty();
            let mut nodes: Vec<_> = (0..count).filter(with_cpus).collect();
            nodes.sort_by_key(|&to| (to != from, machine.distances[from][to], to));
            nodes
        };
        Self {
            nodes: (0..count).map(load).collect(),
            index_in_node: place,
            nodes_by_distance: (0..count).map(near).collect(),
            running_in_complex: vec![0; layout.complex_count],
            queued: 0,
            idle: layout.cpus.len() as u64,
            task_stats: Vec::new(),
            online_cpus: layout.cpus_of_node.clone(),
            prefers_home: scheduler != SchedulerKind::NumaUnaware,
            spares_home: scheduler != SchedulerKind::NumaUnaware || scenario.numa_balancing,
            sched_numa: (scheduler == SchedulerKind::SchedNuma2012).then(SchedNuma::default),
            next_node_balance_ns: vec![0; count],
            nudges: Nudges::default(),
        }
    }

    /// Returns the number of tasks that run on a complex.
    pub fn running_in_complex(&self, complex: usize) -> u64 {
        self.running_in_complex[complex]
    }

    /// Returns the number of tasks that run on all CPUs.
    pub fn running(&self) -> u64 {
        self.nodes.iter().map(|node| node.running).sum()
    }

    /// Returns the number of tasks that run or wait on a node.
    pub fn tasks(&self, node: usize) -> u64 {
        self.nodes[node].queued + self.nodes[node].running
    }

    /// Returns the scheduler state of a task.
    pub fn task_stats_mut(&mut self, task: TaskId) -> &mut TaskStats {
        let index = task as usize;
        if self.task_stats.len() <= index {
            self.task_stats.resize(index + 1, TaskStats::default());
        }
        &mut self.task_stats[index]
    }
}
