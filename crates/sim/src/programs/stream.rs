//! Pairs of threads: one sends messages, the other receives them. Each message is in kernel buffers
//! that the sender allocates and the receiver frees, each on its own CPU.
//!
//! They take turns, as where latency dominates: the sender fills its window, then the receiver
//! reads all of it and acknowledges it.

use std::collections::VecDeque;

use crate::memory::Buffers;
use crate::space::SpaceId;
use crate::task::{Op, Program, Spent, TaskId};
use crate::world::{FAR_NS, World};

/// Buffers in transit from one thread to another.
#[derive(Clone, Debug, Default)]
pub struct Flight {
    space: SpaceId,
    /// Pages per buffer.
    run: u32,
    /// Buffers that wait to be read: node index and count.
    filled: VecDeque<(usize, u64)>,
    /// Buffers that are filled or being filled, and not yet read.
    open: u64,
    /// Whether the window is full and the sender waits.
    is_full: bool,
}

/// The cost of a message.
#[derive(Clone, Copy, Debug)]
pub struct Message {
    /// Buffers per message, 1 or more.
    pub buffers: u64,
    /// Pages per buffer.
    pub run: u32,
    /// Maximum number of messages in transit.
    pub window: u64,
    /// Work of each thread per message, in nanoseconds, without allocation and freeing.
    pub compute_ns: u64,
}

/// One thread. Threads with even numbers send.
#[derive(Debug)]
pub struct Stream {
    flight: usize,
    number: u32,
    message: Message,
    /// Buffers read of a message that is not counted yet.
    read: u64,
}

impl Stream {
    /// Creates thread `number`. Each sender is created just before its receiver.
    pub fn new(world: &mut World, space: SpaceId, number: u32, message: Message) -> Self {
        if number.is_multiple_of(2) {
            world.flights.push(Flight { space, run: message.run, ..Flight::default() });
        }
        Self { flight: world.flights.len() - 1, number, message, read: 0 }
    }

    fn wake_partner(&self, world: &mut World) {
        let space = world.flights[self.flight].space;
        let partner = world.spaces[space].tasks.get((self.number ^ 1) as usize).copied();
        partner.into_iter().for_each(|partner| world.wake(partner));
    }

    /// Returns an operation that processes some buffers, including the time to allocate or free
    /// them.
    fn busy(&self, buffers: &Buffers) -> Op {
        let compute_ns = buffers.count.saturating_mul(self.message.compute_ns);
        let ns = buffers.ns.saturating_add(compute_ns / self.message.buffers);
        Op::Busy(Spent::Kernel, ns.clamp(1, FAR_NS))
    }

    /// Fills the window as far as there is room. When it is full, the receiver has its turn.
    fn send(&mut self, world: &mut World, cpu: usize) -> Op {
        let Flight { open, is_full, .. } = world.flights[self.flight];
        let window = self.message.window * self.message.buffers;
        if is_full {
            return Op::Wait;
        }
        if open == window {
            world.flights[self.flight].is_full = true;
            self.wake_partner(world);
            return Op::Wait;
        }
        let taken = world.take_buffers(cpu, self.message.run, window - open);
        if taken.count == 0 {
            world.counters.oom_kills += 1;
            world.end_process(world.flights[self.flight].space);
            return Op::Exit;
        }
        let flight = &mut world.flights[self.flight];
        flight.filled.push_back((taken.node, taken.count));
        flight.open += taken.count;
        self.busy(&taken)
    }

    /// Reads what has arrived. After the last buffer, the sender has its turn.
    fn receive(&mut self, world: &mut World, task: TaskId, cpu: usize) -> Op {
        let flight = &mut world.flights[self.flight];
        if !flight.is_full {
            return Op::Wait;
        }
        let Some(&(node, count)) = flight.filled.front() else {
            flight.open = 0;
            flight.is_full = false;
            self.wake_partner(world);
            return Op::Wait;
        };
        let given = world.give_buffers(cpu, node, self.message.run, count);
        let flight = &mut world.flights[self.flight];
        match given.count < count {
            true => flight.filled[0].1 -= given.count,
            false => drop(flight.filled.pop_front()),
        }
        self.read += given.count;
        world.done(task, self.read / self.message.buffers);
        self.read %= self.message.buffers;
        self.busy(&given)
    }
}

impl Program for Stream {
    fn next(&mut self, world: &mut World, task: TaskId) -> Op {
        let cpu = world.tasks[task as usize].cpu;
        match self.number.is_multiple_of(2) {
            true => self.send(world, cpu),
            false => self.receive(world, task, cpu),
        }
    }
}

impl World {
    /// Returns the pages of a node that hold unread messages.
    pub(crate) fn pages_in_buffers(&self, node: usize) -> u64 {
        let pages = |flight: &Flight| {
            let here = flight.filled.iter().filter(|&&(on, _)| on == node);
            here.map(|&(_, count)| count * u64::from(flight.run)).sum::<u64>()
        };
        self.flights.iter().map(pages).sum()
    }

    /// Frees the buffers in transit of a process that has ended.
    pub(crate) fn discard_flights(&mut self, space: SpaceId) {
        for at in 0..self.flights.len() {
            if self.flights[at].space == space {
                let Flight { run, filled, .. } = std::mem::take(&mut self.flights[at]);
                filled.into_iter().for_each(|(node, count)| self.discard_buffers(node, run, count));
            }
        }
    }
}
