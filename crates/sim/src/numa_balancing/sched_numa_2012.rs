//! The home balancer of sched/numa (2012).
//!
//! A process without a home gets one when it begins. A kernel thread on each node then checks every
//! two seconds which home node has most tasks running elsewhere. It makes its own node the home of
//! some of these processes, and lets their pages move to the node of the next access.

use crate::cpu::{NodeQueues, Op, TaskState};
use crate::hardware::CpuIndexSet;
use crate::ids::{SpaceId, TaskId};
use crate::statistics::CpuTimeKind;
use crate::world::{TaskProgram, World};

/// Interval between checks: `numa_balance_interval` of the patches, twice HZ.
const PERIOD_NS: u64 = 2_000_000_000;
/// Time of the first check.
const FIRST_NS: u64 = 1_000_000_000;
/// A process that ran for less stays where it is: patch 25, "only migrate long-running entities".
const LONG_RUN_NS: u64 = 1_000_000_000;

impl World {
    /// Starts the balancer's threads, if the scheduler uses it.
    pub(crate) fn start_home_balancers(&mut self) {
        if self.sched.sched_numa.is_none() {
            return;
        }
        for node in 0..self.machine.nodes.len() {
            let cpus = CpuIndexSet::of(self.layout.cpus_of_node[node].iter().copied());
            if !cpus.is_empty() {
                let program = HomeBalancerThread { node, next_ns: FIRST_NS };
                self.start_kernel_task(Some(cpus), Box::new(program));
            }
        }
    }

    /// Returns a home for a process that begins on a node: that node, unless another one has fewer
    /// tasks by a tenth. `None` without the balancer.
    pub(crate) fn first_home(&mut self, space: SpaceId, here: usize) -> Option<usize> {
        let numad = self.sched.sched_numa.as_mut()?;
        if numad.spaces_by_age_at_home.back() != Some(&space) {
            numad.spaces_by_age_at_home.push_back(space);
        }
        let first = self.spaces[space].tasks.first().map(|&task| &self.tasks[task as usize]);
        if let Some(home) = first.and_then(|task| task.home) {
            return Some(home); // threads share the home of their process
        }
        let load = |node: usize| self.tasks_at_home(node);
        let least =
            self.sched.nodes_by_distance[here].iter().copied().min_by_key(|&node| load(node))?;
        Some(if load(here) * 100 < load(least) * 110 { here } else { least })
    }

    /// Returns the number of runnable tasks with this home, wherever they are.
    fn tasks_at_home(&self, node: usize) -> u64 {
        let of = |load: &NodeQueues| load.queued_by_home[node] + load.running_by_home[node];
        self.sched.nodes.iter().map(of).sum()
    }

    /// Returns the number of those that are on other nodes.
    fn tasks_away(&self, node: usize) -> u64 {
        let load = &self.sched.nodes[node];
        self.tasks_at_home(node) - load.queued_by_home[node] - load.running_by_home[node]
    }

    /// Runs one check of a node's thread. Returns the CPU time that it takes, in nanoseconds.
    fn balance_homes(&mut self, node: usize, cpu: usize) -> u64 {
        let nodes = self.sched.nodes_by_distance[node].iter().copied();
        let Some(busiest) = nodes.rev().max_by_key(|&other| self.tasks_away(other)) else {
            return 0;
        };
        if busiest == node || self.tasks_away(busiest) == 0 {
            return 0;
        }
        let [theirs, ours] = [busiest, node].map(|node| self.tasks_at_home(node));
        // In halves of tasks. One process moves in any case, as in the patches, because the
        // imbalance is checked afterwards.
        let mut imbalance = theirs as i64 - ours as i64;
        let mut ns: u64 = 0;
        for _ in 0..self.spaces.len() {
            let Some(space) = self.next_to_rehome(busiest) else { break };
            let tasks = self.spaces[space].tasks.clone();
            imbalance -= 2 * tasks.len() as i64;
            tasks.into_iter().for_each(|task| self.set_home(task, Some(node)));
            ns = ns.saturating_add(self.make_lazy(cpu, space));
            if imbalance <= 0 {
                break;
            }
        }
        ns
    }

    /// Returns the process that has had this home for longest, if it has run for long, and moves it
    /// to the end of the list.
    fn next_to_rehome(&mut self, home: usize) -> Option<SpaceId> {
        let spaces = &self.sched.sched_numa.as_ref()?.spaces_by_age_at_home;
        let is_it = |&&space: &&SpaceId| {
            let tasks = || self.spaces[space].tasks.iter().map(|&task| &self.tasks[task as usize]);
            let ran_ns: u64 = tasks().map(|task| task.cpu_time_ns).sum();
            tasks().any(|task| task.home == Some(home)) && ran_ns > LONG_RUN_NS
        };
        let at = spaces.iter().position(|space| is_it(&space))?;
        let spaces = &mut self.sched.sched_numa.as_mut()?.spaces_by_age_at_home;
        let space = spaces.remove(at)?;
        spaces.push_back(space);
        Some(space)
    }
}

/// Program of a node's balancer thread.
struct HomeBalancerThread {
    node: usize,
    next_ns: u64,
}

impl TaskProgram for HomeBalancerThread {
    fn next(&mut self, world: &mut World, task: TaskId) -> Op {
        if world.now_ns < self.next_ns {
            return Op::Sleep(self.next_ns);
        }
        self.next_ns = world.now_ns + PERIOD_NS;
        let entry = &world.tasks[task as usize];
        debug_assert_eq!(entry.state, TaskState::Running);
        let ns = world.balance_homes(self.node, entry.cpu);
        Op::Busy(CpuTimeKind::Kernel, ns.max(1))
    }
}
