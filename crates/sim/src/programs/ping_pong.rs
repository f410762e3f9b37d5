//! Pairs of threads that exchange messages.

use std::ops::Range;

use crate::cpu::Op;
use crate::ids::{SpaceId, TaskId};
use crate::statistics::CpuTimeKind;
use crate::world::{TaskProgram, World};

/// One thread. Threads with even numbers send first.
#[derive(Debug)]
pub struct PingPong {
    space: SpaceId,
    number: u32,
    pages: u64,
    compute_ns: u64,
    next_step: PingPongStep,
    sent_at_ns: Option<u64>,
}

impl PingPong {
    /// Creates thread `number`. `message` is its size in bytes and the compute time for it.
    pub fn new(world: &World, space: SpaceId, number: u32, message: (u64, u64)) -> Self {
        let pages = message.0.div_ceil(world.machine.params.page_bytes);
        let mut new = Self {
            space,
            number,
            pages,
            compute_ns: message.1,
            next_step: PingPongStep::Begin,
            sent_at_ns: None,
        };
        if number.is_multiple_of(2) {
            new.next_step = PingPongStep::Allocate(new.buffer(world, number));
        }
        new
    }

    /// Returns the place of a thread's messages: its own, as long as the memory is large enough.
    fn buffer(&self, world: &World, number: u32) -> Range<u64> {
        let all = world.spaces[self.space].regions[0].pages;
        let size = self.pages.min(all);
        let places = all.checked_div(size).unwrap_or(1).max(1);
        let first = u64::from(number) % places * size;
        first..first + size
    }

    fn partner(&self) -> u32 {
        self.number ^ 1
    }

    /// Receives a message, whose pages are the partner's.
    fn receive(&mut self, world: &mut World, task: TaskId) {
        if let Some(sent_at) = self.sent_at_ns.take()
            && self.number.is_multiple_of(2)
        {
            world.latencies.record_round_trip(world.now_ns - sent_at);
        }
        world.count_work(task, 1);
        self.next_step = PingPongStep::Free(self.buffer(world, self.partner()));
    }

    fn send(&mut self, world: &mut World) -> Op {
        let tasks = &world.spaces[self.space].tasks;
        let Some(&partner) = tasks.get(self.partner() as usize) else { return Op::Exit };
        self.sent_at_ns = Some(world.now_ns);
        self.next_step = PingPongStep::Receive;
        world.wake(partner);
        Op::Wait
    }
}

impl TaskProgram for PingPong {
    fn next(&mut self, world: &mut World, task: TaskId) -> Op {
        let cpu = world.tasks[task as usize].cpu;
        loop {
            match self.next_step.clone() {
                PingPongStep::Begin => {
                    self.next_step = PingPongStep::Receive;
                    return Op::Wait;
                }
                PingPongStep::Receive => self.receive(world, task),
                PingPongStep::Free(pages) if pages.is_empty() => {
                    self.next_step = PingPongStep::Compute;
                }
                PingPongStep::Free(pages) => {
                    let done = world.mm().free_pages(cpu, self.space, 0, pages.clone());
                    let left = pages.start + done.pages.max(1)..pages.end;
                    self.next_step = PingPongStep::Free(left.start.min(left.end)..left.end);
                    return Op::Busy(CpuTimeKind::Fault, done.ns);
                }
                PingPongStep::Compute => {
                    self.next_step = PingPongStep::Allocate(self.buffer(world, self.number));
                    return Op::Busy(CpuTimeKind::User, self.compute_ns.max(1));
                }
                PingPongStep::Allocate(pages) if pages.is_empty() => {
                    self.next_step = PingPongStep::Send;
                }
                PingPongStep::Allocate(pages) => {
                    let done = world.fault_in_or_kill(cpu, self.space, 0, pages.clone());
                    if done.pages == 0 {
                        return Op::Exit;
                    }
                    self.next_step = PingPongStep::Allocate(pages.start + done.pages..pages.end);
                    return Op::Busy(CpuTimeKind::Fault, done.ns);
                }
                PingPongStep::Send => return self.send(world),
            }
        }
    }
}

/// The next operation of a thread.
#[derive(Clone, Debug)]
enum PingPongStep {
    /// Wait until the first message.
    Begin,
    /// Wait for a message.
    Receive,
    /// Free the remaining pages of the message.
    Free(Range<u64>),
    Compute,
    /// Fault in the remaining pages of the answer.
    Allocate(Range<u64>),
    Send,
}
