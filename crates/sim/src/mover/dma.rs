//! A copy engine: channels that process parts in turn, without CPU time.

use std::collections::VecDeque;

use super::copy::Part;
use crate::events::Event;
use crate::task::{Copying, TaskId};
use crate::traffic::{Carried, Flow, NO_COMPLEX};
use crate::world::World;

/// The channels, and the parts that wait for one.
#[derive(Debug, Default)]
pub struct Engine {
    channels: Vec<Option<Channel>>,
    queue: VecDeque<(TaskId, Part)>,
}

/// The work of a busy channel.
#[derive(Debug)]
struct Channel {
    mover: TaskId,
    /// Rest of the part, without the copy in progress.
    part: Part,
    flows: [Carried; 2],
}

impl Engine {
    /// Creates an engine with a number of channels.
    pub fn new(channels: usize) -> Self {
        Self { channels: (0..channels).map(|_| None).collect(), queue: VecDeque::new() }
    }
}

impl World {
    /// Gives a part to the engine, on behalf of a mover that waits for it.
    pub(crate) fn give_to_engine(&mut self, mover: TaskId, part: Part) {
        self.add_pending(mover);
        self.mover.engine.queue.push_back((mover, part));
        let free = self.mover.engine.channels.iter().position(Option::is_none);
        if let Some(channel) = free {
            self.feed(channel);
        }
    }

    /// Completes the copy of a channel and continues with its next work.
    pub(crate) fn channel_done(&mut self, channel: usize) {
        let Some(mut done) = self.mover.engine.channels[channel].take() else { return };
        done.flows.iter().for_each(|&flow| self.traffic.end(flow));
        match done.part.pop() {
            Some(copying) => self.engage(channel, done.mover, copying, done.part),
            None => {
                self.feed(channel);
                self.part_done(done.mover);
            }
        }
    }

    /// Starts a waiting part on a free channel.
    fn feed(&mut self, channel: usize) {
        while let Some((mover, mut part)) = self.mover.engine.queue.pop_front() {
            if let Some(copying) = part.pop() {
                return self.engage(channel, mover, copying, part);
            }
            self.part_done(mover);
        }
    }

    /// Starts a copy on a channel. Load slows it as much as it slows a miss between the two nodes.
    fn engage(&mut self, channel: usize, mover: TaskId, copying: Copying, part: Part) {
        let params = &self.machine.params;
        let (from, to) = (copying.from, copying.to);
        let idle_ps = (self.machine.latency_ns(to, from) * 1000).max(1);
        let now_ps = self.traffic.latency_ps(NO_COMPLEX, to, from).max(1);
        let rate = params.dma_bytes_per_s.max(1);
        let rate = u128::from(rate) * u128::from(idle_ps) / u128::from(now_ps.max(idle_ps));
        let bytes = u128::from(copying.lines) * u128::from(params.line_bytes);
        let ns = (bytes * 1_000_000_000).div_ceil(rate.max(1));
        let rate = u64::try_from(rate / 1_000_000).unwrap_or(u64::MAX);
        let flow = |node| Flow { complex: NO_COMPLEX, from: to, to: node, rate };
        let flows = [flow(from), flow(to)].map(|flow| self.traffic.begin(flow));
        self.mover.engine.channels[channel] = Some(Channel { mover, part, flows });
        let ns = u64::try_from(ns).unwrap_or(u64::MAX).max(1);
        self.events.plan(self.now_ns.saturating_add(ns), Event::Engine(channel as u32));
    }
}
