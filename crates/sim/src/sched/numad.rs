//! The balancer of homes that sched/numa had (2012).
//!
//! A process without a home is given one when it begins. A thread of the kernel on each node then
//! looks every two seconds from which node's tasks most run away, gives some of that node's
//! processes a home on its own node, and lets their pages follow whoever touches them.

use std::collections::VecDeque;

use crate::space::SpaceId;
use crate::task::{CpuSet, Op, Program, Spent, State, TaskId};
use crate::world::World;

/// Between two looks: `numa_balance_interval` of the patches, twice HZ.
const PERIOD_NS: u64 = 2_000_000_000;
/// The first look.
const FIRST_NS: u64 = 1_000_000_000;
/// A process that ran for less stays where it is: patch 25, "only migrate long-running entities".
const LONG_RUN_NS: u64 = 1_000_000_000;

/// What the balancer knows beside the homes of tasks.
#[derive(Clone, Debug, Default)]
pub struct Numad {
    /// All processes; who was given a home last stands last.
    spaces: VecDeque<SpaceId>,
}

impl World {
    /// Starts the balancer's threads, if the scheduler has them.
    pub(crate) fn start_numad(&mut self) {
        if self.sched.numad.is_none() {
            return;
        }
        for node in 0..self.machine.nodes.len() {
            let cpus = CpuSet::of(self.layout.cpus_of_node[node].iter().copied());
            if !cpus.is_empty() {
                let program = Looks { node, next_ns: FIRST_NS };
                self.start_kernel_task(Some(cpus), Box::new(program));
            }
        }
    }

    /// A home for a process that begins on a node: that node, unless another one has fewer tasks by
    /// a tenth. None without the balancer.
    pub(crate) fn first_home(&mut self, space: SpaceId, here: usize) -> Option<usize> {
        let numad = self.sched.numad.as_mut()?;
        if numad.spaces.back() != Some(&space) {
            numad.spaces.push_back(space);
        }
        let first = self.spaces[space].tasks.first().map(|&task| &self.tasks[task as usize]);
        if let Some(home) = first.and_then(|task| task.home) {
            return Some(home); // threads live where their process does
        }
        let load = |node: usize| self.tasks_at_home(node);
        let least = self.sched.near[here].iter().copied().min_by_key(|&node| load(node))?;
        Some(if load(here) * 100 < load(least) * 110 { here } else { least })
    }

    /// Where a process's fresh pages are to come from, if the scheduler gives homes to memory too.
    pub(crate) fn memory_home(&self, space: SpaceId) -> Option<usize> {
        self.sched.numad.as_ref()?;
        self.tasks[*self.spaces[space].tasks.first()? as usize].home
    }

    /// Tasks that can run and are at home on a node, wherever they are.
    fn tasks_at_home(&self, node: usize) -> u64 {
        let of = |load: &super::NodeLoad| load.waiting_by_home[node] + load.running_by_home[node];
        self.sched.nodes.iter().map(of).sum()
    }

    /// Those of them that are on other nodes.
    fn tasks_away(&self, node: usize) -> u64 {
        let load = &self.sched.nodes[node];
        self.tasks_at_home(node) - load.waiting_by_home[node] - load.running_by_home[node]
    }

    /// A look of a node's thread; returns the CPU time that it takes.
    fn balance_homes(&mut self, node: usize, cpu: usize) -> u64 {
        let nodes = self.sched.near[node].iter().copied();
        let Some(busiest) = nodes.rev().max_by_key(|&other| self.tasks_away(other)) else {
            return 0;
        };
        if busiest == node || self.tasks_away(busiest) == 0 {
            return 0;
        }
        let [theirs, ours] = [busiest, node].map(|node| self.tasks_at_home(node));
        // In halves of tasks. One process goes in any case, as in the patches: the imbalance is
        // looked at afterwards.
        let mut imbalance = theirs as i64 - ours as i64;
        let mut ns: u64 = 0;
        for _ in 0..self.spaces.len() {
            let Some(space) = self.next_from(busiest) else { break };
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

    /// The process at home on a node that has been there for longest, if it has run for long; it
    /// stands last from now on.
    fn next_from(&mut self, home: usize) -> Option<SpaceId> {
        let spaces = &self.sched.numad.as_ref()?.spaces;
        let is_it = |&&space: &&SpaceId| {
            let tasks = || self.spaces[space].tasks.iter().map(|&task| &self.tasks[task as usize]);
            let ran_ns: u64 = tasks().map(|task| task.ran_ns).sum();
            tasks().any(|task| task.home == Some(home)) && ran_ns > LONG_RUN_NS
        };
        let at = spaces.iter().position(|space| is_it(&space))?;
        let spaces = &mut self.sched.numad.as_mut()?.spaces;
        let space = spaces.remove(at)?;
        spaces.push_back(space);
        Some(space)
    }
}

/// A node's thread.
struct Looks {
    node: usize,
    next_ns: u64,
}

impl Program for Looks {
    fn next(&mut self, world: &mut World, task: TaskId) -> Op {
        if world.now_ns < self.next_ns {
            return Op::Sleep(self.next_ns);
        }
        self.next_ns = world.now_ns + PERIOD_NS;
        let entry = &world.tasks[task as usize];
        debug_assert_eq!(entry.state, State::Running);
        let ns = world.balance_homes(self.node, entry.cpu);
        Op::Busy(Spent::Kernel, ns.max(1))
    }
}
