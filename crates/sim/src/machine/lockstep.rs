//! Workers: host threads that act concurrently on the simulated machine.
//!
//! One of them acts at a time. It hands over when its request takes virtual time. The world
//! advances when all of them wait, and the first whose wait ends acts next: ordered by virtual
//! time, then by its number. The order therefore does not depend on the host scheduler. While
//! workers are registered, other threads must not make requests that take time.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use crate::cpu::TaskState;
use crate::ids::TaskId;
use crate::world::World;

/// The end of a thread's wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitUntil {
    /// A virtual time, in nanoseconds.
    Time(u64),
    /// The end of a task.
    TaskEnd(TaskId),
}

impl WaitUntil {
    fn is_over(self, world: &World) -> bool {
        match self {
            _ if world.counters.events >= world.events_max => true,
            Self::Time(at) => world.now_ns >= at,
            Self::TaskEnd(task) => world.tasks[task as usize].state == TaskState::Ended,
        }
    }

    fn deadline_ns(self) -> u64 {
        match self {
            Self::Time(at) => at,
            Self::TaskEnd(_) => u64::MAX,
        }
    }
}

/// A registered host thread.
#[derive(Debug)]
struct SimWorker {
    thread: ThreadId,
    /// The index of the CPU that it stays on.
    cpu: Option<usize>,
    wait: WaitUntil,
}

/// A world, and the workers that act on it.
pub struct LockstepWorld {
    /// The world.
    pub world: World,
    workers: BTreeMap<u32, SimWorker>,
    /// Workers that have not registered yet.
    workers_missing: u32,
    /// The worker that may act now.
    turn: Option<u32>,
    /// The CPU of threads that are not workers.
    cpu: Option<usize>,
    /// CPU time spent on behalf of the acting threads, in nanoseconds.
    pub own_cpu_time_ns: u64,
}

impl LockstepWorld {
    fn current_worker(&self) -> Option<u32> {
        let us = thread::current().id();
        self.workers.iter().find(|(_, worker)| worker.thread == us).map(|(&number, _)| number)
    }

    /// Returns the index of the CPU that the calling thread stays on, if it does.
    pub fn current_cpu(&self) -> Option<usize> {
        self.current_worker().map_or(self.cpu, |number| self.workers[&number].cpu)
    }

    /// Returns the same CPU, or else the least loaded one, where a thread that may run anywhere
    /// would go.
    pub fn current_or_idlest_cpu(&self) -> usize {
        let busy = |&cpu: &usize| self.world.cpus[cpu].task_count();
        let fewest = (0..self.world.layout.cpus.len()).min_by_key(busy);
        self.current_cpu().or(fewest).unwrap_or(0)
    }

    /// Keeps the calling thread on a CPU, by index.
    pub fn pin_current_thread(&mut self, cpu: usize) {
        match self.current_worker().and_then(|number| self.workers.get_mut(&number)) {
            Some(worker) => worker.cpu = Some(cpu),
            None => self.cpu = Some(cpu),
        }
    }

    /// Runs the world until a thread's wait ends. That thread acts next.
    fn pass_turn(&mut self) {
        self.turn = None;
        if self.workers_missing > 0 || self.workers.is_empty() {
            return;
        }
        while self.turn.is_none() {
            let ready = self.workers.iter().find(|(_, worker)| worker.wait.is_over(&self.world));
            self.turn = ready.map(|(&number, _)| number);
            if self.turn.is_none() {
                let times = self.workers.values().map(|worker| worker.wait.deadline_ns());
                self.world.step(times.min().unwrap_or(u64::MAX));
            }
        }
    }
}

/// A world that host threads share.
pub struct SharedWorld {
    world: Mutex<LockstepWorld>,
    turns: Condvar,
}

impl SharedWorld {
    /// Wraps a world, without workers.
    pub fn new(world: World) -> Self {
        let lockstep = LockstepWorld {
            world,
            workers: BTreeMap::new(),
            workers_missing: 0,
            turn: None,
            cpu: None,
            own_cpu_time_ns: 0,
        };
        Self { world: Mutex::new(lockstep), turns: Condvar::new() }
    }

    /// Locks the world for the calling thread.
    pub fn lock(&self) -> MutexGuard<'_, LockstepWorld> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets virtual time pass for the calling thread.
    pub fn wait<'a>(
        &self,
        mut lockstep: MutexGuard<'a, LockstepWorld>,
        until: WaitUntil,
    ) -> MutexGuard<'a, LockstepWorld> {
        let Some(number) = lockstep.current_worker() else {
            while !until.is_over(&lockstep.world) {
                lockstep.world.step(until.deadline_ns());
            }
            return lockstep;
        };
        if let Some(worker) = lockstep.workers.get_mut(&number) {
            worker.wait = until;
        }
        lockstep.pass_turn();
        self.turns.notify_all();
        self.wait_for_turn(lockstep, number)
    }

    fn wait_for_turn<'a>(
        &self,
        mut lockstep: MutexGuard<'a, LockstepWorld>,
        number: u32,
    ) -> MutexGuard<'a, LockstepWorld> {
        while lockstep.turn != Some(number) {
            lockstep = self.turns.wait(lockstep).unwrap_or_else(PoisonError::into_inner);
        }
        lockstep
    }

    /// Registers the calling thread as one of `of` workers, and waits for all of them and for its
    /// turn. If other workers are registered, waits for their end first.
    pub fn register_worker(&self, number: u32, of: u32) {
        let mut lockstep = self.lock();
        while lockstep.workers_missing == 0 && !lockstep.workers.is_empty() {
            lockstep = self.turns.wait(lockstep).unwrap_or_else(PoisonError::into_inner);
        }
        if lockstep.workers.is_empty() {
            lockstep.workers_missing = of.max(1);
        }
        let waits = WaitUntil::Time(0);
        lockstep
            .workers
            .insert(number, SimWorker { thread: thread::current().id(), cpu: None, wait: waits });
        lockstep.workers_missing -= 1;
        if lockstep.workers_missing == 0 {
            lockstep.pass_turn();
            self.turns.notify_all();
        }
        drop(self.wait_for_turn(lockstep, number));
    }

    /// Removes the calling thread from the workers.
    pub fn unregister_worker(&self) {
        let mut lockstep = self.lock();
        if let Some(number) = lockstep.current_worker() {
            lockstep.workers.remove(&number);
            lockstep.pass_turn();
            self.turns.notify_all();
        }
    }
}
