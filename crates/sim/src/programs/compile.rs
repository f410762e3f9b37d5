//! Short-lived processes, one after the other. Each faults in its memory bit by bit, computes on
//! it, and exits. The next one is then forked.

use nodeward_scenario::{AccessPattern, Workload, WorkloadKind};

use super::duty_cycle::with_duty_cycle;
use super::threads::{WorkloadSlot, assign_first_home, map_memory, new_thread};
use crate::arithmetic::mul_div;
use crate::cpu::{LineAccess, Op, Task};
use crate::ids::{SpaceId, TaskId};
use crate::memory::GranuleRange;
use crate::statistics::CpuTimeKind;
use crate::world::{TaskProgram, World};

/// Number of pieces of a life; each piece faults in new memory, computes and goes through lines.
const PIECES: u64 = 8;

/// The work of one process.
#[derive(Clone, Copy, Debug)]
pub struct CompileWork {
    space: SpaceId,
    /// Pages that it touches.
    pages: u64,
    compute_ns: u64,
}

impl CompileWork {
    /// Draws a life in an address space: up to `varies_milli` thousandths shorter than the longest
    /// one, in memory and time alike.
    pub fn draw(world: &mut World, space: SpaceId, compute_ns: u64, varies_milli: u32) -> Self {
        let longest = Self { space, pages: world.spaces[space].regions[0].pages, compute_ns };
        if varies_milli == 0 {
            return longest;
        }
        let less = world.rng.next_u64() % (u64::from(varies_milli) + 1);
        let part = |whole: u64| mul_div(whole, 1000 - less.min(1000), 1000).max(1);
        Self { space, pages: part(longest.pages), compute_ns: part(compute_ns) }
    }
}

/// The next step in a piece.
#[derive(Clone, Copy, Debug)]
enum CompileStep {
    Touch,
    Access,
}

/// One process.
#[derive(Debug)]
pub struct Compile {
    slot: WorkloadSlot,
    /// Number of processes that follow each other in its place; 0 for no end.
    lives: u32,
    work: CompileWork,
    access: AccessPattern,
    /// Pages touched so far.
    touched: u64,
    /// Pieces completed.
    pieces: u64,
    next_step: CompileStep,
    /// Pages freed so far.
    freed: u64,
}

impl Compile {
    /// Creates the process of a slot of the workload.
    pub fn new(slot: WorkloadSlot, lives: u32, life: CompileWork, access: AccessPattern) -> Self {
        Self {
            slot,
            lives,
            work: life,
            access,
            touched: 0,
            pieces: 0,
            next_step: CompileStep::Touch,
            freed: 0,
        }
    }

    /// Continues a piece: touches its memory, computes, goes through all that it has.
    fn next_piece(&mut self, world: &mut World, cpu: usize) -> Op {
        let wanted = self.work.pages * (self.pieces + 1) / PIECES;
        match self.next_step {
            CompileStep::Touch if self.touched < wanted => {
                let stretch = world.fault_in_or_kill(cpu, self.work.space, 0, self.touched..wanted);
                self.touched += stretch.pages;
                match stretch.pages {
                    0 => Op::Exit,
                    _ => Op::Busy(CpuTimeKind::Fault, stretch.ns),
                }
            }
            CompileStep::Touch => {
                self.next_step = CompileStep::Access;
                Op::Busy(CpuTimeKind::User, self.work.compute_ns / PIECES)
            }
            CompileStep::Access => {
                self.next_step = CompileStep::Touch;
                self.pieces += 1;
                self.access_all(world)
            }
        }
    }

    /// Returns an operation on all its memory, once per life.
    fn access_all(&self, world: &World) -> Op {
        let (space, params) = (self.work.space, &world.machine.params);
        let region = &world.spaces[space].regions[0];
        let granules = region.granules_of(0..self.touched.max(1)).len().max(1);
        let part = GranuleRange { space, region: 0, first: 0, granules };
        let lines = self.touched * params.page_bytes / params.line_bytes.max(1) / PIECES;
        Op::Access(LineAccess { range: part, lines, pattern: self.access, reused: true })
    }
}

impl TaskProgram for Compile {
    fn next(&mut self, world: &mut World, task: TaskId) -> Op {
        let cpu = world.tasks[task as usize].cpu;
        if self.pieces < PIECES {
            return self.next_piece(world, cpu);
        }
        // It frees its own memory, so that the next life begins when that is free.
        if self.freed < self.touched {
            let pages = self.freed..self.touched;
            let stretch = world.mm().free_pages(cpu, self.work.space, 0, pages);
            self.freed += stretch.pages;
            return Op::Busy(CpuTimeKind::Fault, stretch.ns);
        }
        world.count_work(task, 1);
        let next = WorkloadSlot { generation: self.slot.generation.saturating_add(1), ..self.slot };
        if self.lives == 0 || next.generation < self.lives {
            start_successor(world, next, task);
        }
        Op::Exit
    }
}

/// Starts the next process of a workload whose processes are short-lived.
fn start_successor(world: &mut World, slot: WorkloadSlot, parent: TaskId) {
    let workload = world.scenario().workloads[slot.workload].clone();
    let space = map_memory(world, &workload, None);
    let Some(program) = compile_program(world, &workload, slot, space) else { return };
    let mut task = new_thread(world, &workload, slot, space);
    // A forked task begins with its parent's vruntime (`task_fork_fair`). If each began before the
    // queued tasks, a chain of short lives would starve them, and the parents' exits.
    let Task { cpu, vruntime_ns, .. } = world.tasks[parent as usize];
    (task.cpu, task.vruntime_ns) = (cpu, vruntime_ns);
    assign_first_home(world, &mut task);
    world.start_task(task, program);
}

/// Creates the program of a short-lived process, which has one thread. `None` for a workload of
/// another kind.
pub fn compile_program(
    world: &mut World,
    workload: &Workload,
    slot: WorkloadSlot,
    space: SpaceId,
) -> Option<Box<dyn TaskProgram>> {
    let WorkloadKind::Compile { compute_ns, access, lives, varies_milli } = workload.kind else {
        return None;
    };
    let life = CompileWork::draw(world, space, compute_ns, varies_milli);
    let program = Box::new(Compile::new(slot, lives, life, access));
    Some(with_duty_cycle(program, workload))
}
