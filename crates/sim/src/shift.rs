//! Host threads that act concurrently on the simulated machine.
//!
//! One of them acts at a time. It hands over when its request takes virtual time. The world
//! advances when all of them wait, and the first whose wait ends acts next: ordered by virtual
//! time, then by its number. The order therefore does not depend on the host scheduler. While a
//! shift is on, threads outside it must not make requests that take time.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use crate::task::{State as TaskState, TaskId};
use crate::world::World;

/// The end of a thread's wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// A virtual time, in nanoseconds.
    Time(u64),
    /// The end of a task.
    End(TaskId),
}

impl Until {
    fn is_over(self, world: &World) -> bool {
        match self {
            _ if world.counters.events >= world.events_max => true,
            Self::Time(at) => world.now_ns >= at,
            Self::End(task) => world.tasks[task as usize].state == TaskState::Ended,
        }
    }

    fn latest_ns(self) -> u64 {
        match self {
            Self::Time(at) => at,
            Self::End(_) => u64::MAX,
        }
    }
}

/// One thread of a shift.
#[derive(Debug)]
struct Seat {
    thread: ThreadId,
    /// The index of the CPU that it stays on.
    cpu: Option<usize>,
    waits: Until,
}

/// A world, and the threads that act on it.
pub struct Stage {
    /// The world.
    pub world: World,
    seats: BTreeMap<u32, Seat>,
    /// Threads that have not arrived yet.
    missing: u32,
    /// The thread that may act now.
    turn: Option<u32>,
    /// The CPU of threads outside any shift.
    cpu: Option<usize>,
    /// CPU time spent on behalf of the acting threads, in nanoseconds.
    pub own_ns: u64,
}

impl Stage {
    fn seat(&self) -> Option<u32> {
        let us = thread::current().id();
        self.seats.iter().find(|(_, seat)| seat.thread == us).map(|(&number, _)| number)
    }

    /// Returns the index of the CPU that the calling thread stays on, if it does.
    pub fn cpu(&self) -> Option<usize> {
        self.seat().map_or(self.cpu, |number| self.seats[&number].cpu)
    }

    /// Returns the same CPU, or else the least loaded one, where a thread that may run anywhere
    /// would go.
    pub fn own_cpu(&self) -> usize {
        let busy = |&cpu: &usize| {
            let cpu = &self.world.cpus[cpu];
            usize::from(cpu.running.is_some()) + cpu.line.len()
        };
        let fewest = (0..self.world.layout.cpus.len()).min_by_key(busy);
        self.cpu().or(fewest).unwrap_or(0)
    }

    /// Keeps the calling thread on a CPU, by index.
    pub fn stay_on(&mut self, cpu: usize) {
        match self.seat().and_then(|number| self.seats.get_mut(&number)) {
            Some(seat) => seat.cpu = Some(cpu),
            None => self.cpu = Some(cpu),
        }
    }

    /// Runs the world until a thread's wait ends. That thread acts next.
    fn hand_over(&mut self) {
        self.turn = None;
        if self.missing > 0 || self.seats.is_empty() {
            return;
        }
        while self.turn.is_none() {
            let ready = self.seats.iter().find(|(_, seat)| seat.waits.is_over(&self.world));
            self.turn = ready.map(|(&number, _)| number);
            if self.turn.is_none() {
                let times = self.seats.values().map(|seat| seat.waits.latest_ns());
                self.world.step(times.min().unwrap_or(u64::MAX));
            }
        }
    }
}

/// A stage that threads share.
pub struct SharedStage {
    stage: Mutex<Stage>,
    turns: Condvar,
}

impl SharedStage {
    /// Creates a stage without acting threads.
    pub fn new(world: World) -> Self {
        let seats = BTreeMap::new();
        let stage = Stage { world, seats, missing: 0, turn: None, cpu: None, own_ns: 0 };
        Self { stage: Mutex::new(stage), turns: Condvar::new() }
    }

    /// Locks the stage for the calling thread.
    pub fn lock(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets virtual time pass for the calling thread.
    pub fn wait<'a>(
        &self,
        mut stage: MutexGuard<'a, Stage>,
        until: Until,
    ) -> MutexGuard<'a, Stage> {
        let Some(number) = stage.seat() else {
            while !until.is_over(&stage.world) {
                stage.world.step(until.latest_ns());
            }
            return stage;
        };
        if let Some(seat) = stage.seats.get_mut(&number) {
            seat.waits = until;
        }
        stage.hand_over();
        self.turns.notify_all();
        self.wait_for_turn(stage, number)
    }

    fn wait_for_turn<'a>(
        &self,
        mut stage: MutexGuard<'a, Stage>,
        number: u32,
    ) -> MutexGuard<'a, Stage> {
        while stage.turn != Some(number) {
            stage = self.turns.wait(stage).unwrap_or_else(PoisonError::into_inner);
        }
        stage
    }

    /// Joins a shift of `of` threads, and waits for all of them and for the calling thread's turn.
    /// If another shift is on, waits for its end first.
    pub fn begin(&self, number: u32, of: u32) {
        let mut stage = self.lock();
        while stage.missing == 0 && !stage.seats.is_empty() {
            stage = self.turns.wait(stage).unwrap_or_else(PoisonError::into_inner);
        }
        if stage.seats.is_empty() {
            stage.missing = of.max(1);
        }
        let waits = Until::Time(0);
        stage.seats.insert(number, Seat { thread: thread::current().id(), cpu: None, waits });
        stage.missing -= 1;
        if stage.missing == 0 {
            stage.hand_over();
            self.turns.notify_all();
        }
        drop(self.wait_for_turn(stage, number));
    }

    /// Removes the calling thread from its shift.
    pub fn end(&self) {
        let mut stage = self.lock();
        if let Some(number) = stage.seat() {
            stage.seats.remove(&number);
            stage.hand_over();
            self.turns.notify_all();
        }
    }
}
