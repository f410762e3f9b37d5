//! Threads that work on their parts and meet at a barrier after each phase.

use nodeward_scenario::AccessPattern;

use super::fill::{Fill, granule_range_of, line_count, repeated_access};
use crate::cpu::Op;
use crate::ids::{SpaceId, TaskId};
use crate::memory::GranuleRange;
use crate::world::{Barrier, TaskProgram, World};

/// One thread.
#[derive(Debug)]
pub struct Phases {
    access: AccessPattern,
    fill: Fill,
    own: GranuleRange,
    all: GranuleRange,
    own_lines: u64,
    shared_lines: u64,
    barrier: usize,
    next_step: PhaseStep,
}

impl Phases {
    /// Creates thread `number` of `of`. `phase` is the bytes that it goes through per phase, and
    /// how many per 1000 of them lie in the parts of all threads.
    pub fn new(
        world: &mut World,
        space: SpaceId,
        place: (u32, u32),
        access: AccessPattern,
        phase: (u64, u32),
    ) -> Self {
        let fill = Fill::new(world, space, place);
        let lines = line_count(world, phase.0);
        let shared_lines = lines / 1000 * u64::from(phase.1.min(1000));
        let pages = world.spaces[space].regions[0].pages;
        if world.barriers.last().is_none_or(|barrier| barrier.space != space) {
            world.barriers.push(Barrier { space, ..Barrier::default() });
        }
        let barrier = world.barriers.len() - 1;
        world.barriers[barrier].threads += 1;
        Self {
            access,
            own: granule_range_of(world, space, fill.pages()),
            all: granule_range_of(world, space, 0..pages),
            fill,
            own_lines: lines - shared_lines,
            shared_lines,
            barrier,
            next_step: PhaseStep::Arrive,
        }
    }

    fn leave_barrier(&self, world: &mut World) -> Op {
        let barrier = &mut world.barriers[self.barrier];
        barrier.threads -= 1;
        let awake = barrier.open_if_full();
        awake.into_iter().for_each(|task| world.wake(task));
        Op::Exit
    }

    fn arrive_at_barrier(&mut self, world: &mut World, task: TaskId) -> Option<Op> {
        let barrier = &mut world.barriers[self.barrier];
        let opened = barrier.opened;
        barrier.waiting.push(task);
        let awake = barrier.open_if_full();
        if awake.is_empty() {
            self.next_step = PhaseStep::Wait(opened);
            return Some(Op::Wait);
        }
        self.next_step = PhaseStep::Own;
        awake.into_iter().filter(|&other| other != task).for_each(|other| world.wake(other));
        None
    }
}

impl TaskProgram for Phases {
    fn next(&mut self, world: &mut World, task: TaskId) -> Op {
        match self.fill.next(world, task) {
            Some(Op::Exit) => return self.leave_barrier(world),
            Some(op) => return op,
            None => {}
        }
        loop {
            match self.next_step {
                PhaseStep::Own => {
                    self.next_step = PhaseStep::Shared;
                    if self.own_lines > 0 {
                        return repeated_access(self.own, self.own_lines, self.access);
                    }
                }
                PhaseStep::Shared => {
                    self.next_step = PhaseStep::Arrive;
                    if self.shared_lines > 0 {
                        return repeated_access(self.all, self.shared_lines, self.access);
                    }
                }
                PhaseStep::Arrive => {
                    if let Some(op) = self.arrive_at_barrier(world, task) {
                        return op;
                    }
                }
                PhaseStep::Wait(opened) if world.barriers[self.barrier].opened > opened => {
                    self.next_step = PhaseStep::Own;
                }
                PhaseStep::Wait(_) => return Op::Wait, // woken for another reason
            }
        }
    }

    fn populate(&mut self, world: &mut World, task: TaskId) {
        self.fill.populate(world, task);
    }
}

/// The operation that follows the present one.
#[derive(Clone, Copy, Debug)]
enum PhaseStep {
    Own,
    Shared,
    Arrive,
    /// Wait until the barrier has opened more often than this.
    Wait(u64),
}
