//! A CPU: the task on it, its turn and its run queue.
//!
//! A CPU works in *turns*. A turn begins with the next task and its next operation. It ends when
//! the operation is done, the slice is over, or the CPU is interrupted. A memory-bound operation
//! runs at the rate that memory and links have when the turn begins, for [`TURN_NS`] at most.

use super::run_queue::RunQueue;
use crate::hardware::{ActiveFlow, Flow, Traffic};
use crate::ids::{SpaceId, TaskId};
use crate::statistics::CpuTimeKind;

/// The longest turn. A thread learns of a changed rate or balance at most this late.
pub const TURN_NS: u64 = 4_000_000;

/// A CPU. Nearly all of it is needed in each turn, so it is kept in whole cache lines.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Cpu {
    /// The task on it.
    pub running: Option<TaskId>,
    /// The number of its turn. Events of earlier turns are stale.
    pub turn_number: u32,
    /// Whether other tasks come first as soon as the turn ends.
    pub need_resched: bool,
    /// The last task on it.
    pub last_task: Option<TaskId>,
    /// The time at which its turn began, after interrupts.
    pub turn_began_ns: u64,
    /// The time at which it last became idle.
    pub idle_since_ns: u64,
    /// CPU time that its task has left before others run, in nanoseconds.
    pub slice_ns: u64,
    /// Time spent in interrupts that its task has not been charged for yet, in nanoseconds.
    pub pending_interrupt_ns: u64,
    /// Interrupt time at the beginning of the turn, in nanoseconds; it ends at `turn_began_ns`.
    pub turn_interrupt_ns: u64,
    /// Busy time, in nanoseconds.
    pub busy_ns: u64,
    /// Its run queue.
    pub run_queue: RunQueue,
    /// Its flows through memory in this turn.
    pub flows: Vec<ActiveFlow>,
    /// The operation of this turn; none between turns.
    pub turn_work: Option<TurnWork>,
    /// Spaces whose translations it was told to flush since they were used here.
    pub flushed_spaces: Vec<SpaceId>,
}

/// The operation of a turn.
#[derive(Clone, Copy, Debug)]
pub enum TurnWork {
    /// Time that passes: its purpose, and the speed of the core, of 1000.
    Busy(CpuTimeKind, u64),
    /// Cache lines: the time of each in picoseconds, local misses per 1000 misses, cache hits per
    /// 1000 lines, and page-table walks per 1000 lines.
    Access { line_ps: u64, local_milli: u64, hit_milli: u64, walk_milli: u64 },
    /// Page faults on the lines of the turn that follows.
    Fault,
    /// Copied cache lines, and the time of each in picoseconds.
    Copy { line_ps: u64 },
}

impl Cpu {
    /// Returns whether its turn can be cut short.
    pub fn is_preemptible(&self) -> bool {
        match self.turn_work {
            Some(TurnWork::Busy(spent, _)) => spent == CpuTimeKind::User,
            // Kernel work is finished first.
            Some(TurnWork::Fault | TurnWork::Copy { .. }) => false,
            Some(TurnWork::Access { .. }) | None => true,
        }
    }

    /// Returns whether it is in the middle of a turn.
    pub fn is_in_turn(&self) -> bool {
        self.turn_work.is_some()
    }

    /// Returns the CPU time of its task since the turn began, in nanoseconds.
    pub fn turn_time_ns(&self, now_ns: u64) -> u64 {
        if self.is_in_turn() { now_ns.saturating_sub(self.turn_began_ns) } else { 0 }
    }

    /// Returns the number of tasks that run or wait on it.
    pub fn task_count(&self) -> usize {
        self.run_queue.len() + usize::from(self.running.is_some())
    }

    /// Registers a flow for the turn that begins.
    pub fn begin_flow(&mut self, traffic: &mut Traffic, flow: Flow) {
        self.flows.push(traffic.begin(flow));
    }

    /// Makes it forget the translations of a space, so that the next turn there loads them again.
    pub fn mark_tlb_flushed(&mut self, space: SpaceId) {
        if !self.flushed_spaces.contains(&space) {
            self.flushed_spaces.push(space);
        }
    }
}
