//! Pairs of threads: one sends messages, the other receives them. Each message is in kernel buffers
//! that the sender allocates and the receiver frees, each on its own CPU.
//!
//! They take turns, as where latency dominates: the sender fills its window, then the receiver
//! reads all of it and acknowledges it.

use crate::cpu::Op;
use crate::events::NEVER_NS;
use crate::ids::{SpaceId, TaskId};
use crate::memory::BufferProgress;
use crate::statistics::CpuTimeKind;
use crate::world::{StreamWindow, TaskProgram, World};

/// The cost of a message.
#[derive(Clone, Copy, Debug)]
pub struct Message {
    /// Buffers per message, 1 or more.
    pub buffers: u64,
    /// Pages per buffer.
    pub buffer_pages: u32,
    /// Maximum number of messages in transit.
    pub window: u64,
    /// Work of each thread per message, in nanoseconds, without allocation and freeing.
    pub compute_ns: u64,
}

/// One thread. Threads with even numbers send.
#[derive(Debug)]
pub struct MessageStream {
    window: usize,
    number: u32,
    message: Message,
    /// Buffers read of a message that is not counted yet.
    uncounted_buffers: u64,
}

impl MessageStream {
    /// Creates thread `number`. Each sender is created just before its receiver.
    pub fn new(world: &mut World, space: SpaceId, number: u32, message: Message) -> Self {
        if number.is_multiple_of(2) {
            world.streams.push(StreamWindow {
                space,
                buffer_pages: message.buffer_pages,
                ..StreamWindow::default()
            });
        }
        Self { window: world.streams.len() - 1, number, message, uncounted_buffers: 0 }
    }

    fn wake_partner(&self, world: &mut World) {
        let space = world.streams[self.window].space;
        let partner = world.spaces[space].tasks.get((self.number ^ 1) as usize).copied();
        partner.into_iter().for_each(|partner| world.wake(partner));
    }

    /// Returns an operation that processes some buffers, including the time to allocate or free
    /// them.
    fn busy_op(&self, buffers: &BufferProgress) -> Op {
        let compute_ns = buffers.count.saturating_mul(self.message.compute_ns);
        let ns = buffers.ns.saturating_add(compute_ns / self.message.buffers);
        Op::Busy(CpuTimeKind::Kernel, ns.clamp(1, NEVER_NS))
    }

    /// Fills the window as far as there is room. When it is full, the receiver has its turn.
    fn send(&mut self, world: &mut World, cpu: usize) -> Op {
        let StreamWindow { buffers_in_window: open, is_full, .. } = world.streams[self.window];
        let window = self.message.window * self.message.buffers;
        if is_full {
            return Op::Wait;
        }
        if open == window {
            world.streams[self.window].is_full = true;
            self.wake_partner(world);
            return Op::Wait;
        }
        let taken = world.mm().allocate_buffers(cpu, self.message.buffer_pages, window - open);
        if taken.count == 0 {
            world.counters.oom_kills += 1;
            world.kill_process(world.streams[self.window].space);
            return Op::Exit;
        }
        let flight = &mut world.streams[self.window];
        flight.unread.push_back((taken.node, taken.count));
        flight.buffers_in_window += taken.count;
        self.busy_op(&taken)
    }

    /// Reads what has arrived. After the last buffer, the sender has its turn.
    fn receive(&mut self, world: &mut World, task: TaskId, cpu: usize) -> Op {
        let flight = &mut world.streams[self.window];
        if !flight.is_full {
            return Op::Wait;
        }
        let Some(&(node, count)) = flight.unread.front() else {
            flight.buffers_in_window = 0;
            flight.is_full = false;
            self.wake_partner(world);
            return Op::Wait;
        };
        let given = world.mm().free_buffers(cpu, node, self.message.buffer_pages, count);
        let flight = &mut world.streams[self.window];
        match given.count < count {
            true => flight.unread[0].1 -= given.count,
            false => drop(flight.unread.pop_front()),
        }
        self.uncounted_buffers += given.count;
        world.count_work(task, self.uncounted_buffers / self.message.buffers);
        self.uncounted_buffers %= self.message.buffers;
        self.busy_op(&given)
    }
}

impl TaskProgram for MessageStream {
    fn next(&mut self, world: &mut World, task: TaskId) -> Op {
        let cpu = world.tasks[task as usize].cpu;
        match self.number.is_multiple_of(2) {
            true => self.send(world, cpu),
            false => self.receive(world, task, cpu),
        }
    }
}
