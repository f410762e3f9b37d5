//! Copies by the channels of a copy engine.

use crate::cpu::{CopyPart, DmaChannel, LineCopy};
use crate::events::SimEvent;
use crate::hardware::{Flow, NO_COMPLEX};
use crate::ids::TaskId;
use crate::world::World;

impl World {
    /// Gives a part to the engine, on behalf of a mover that waits for it.
    pub(crate) fn queue_for_dma(&mut self, mover: TaskId, part: CopyPart) {
        self.add_pending_part(mover);
        self.dma.queue.push_back((mover, part));
        let free = self.dma.channels.iter().position(Option::is_none);
        if let Some(channel) = free {
            self.start_queued_dma(channel);
        }
    }

    /// Completes the copy of a channel and continues with its next work.
    pub(crate) fn finish_dma_transfer(&mut self, channel: usize) {
        let Some(mut done) = self.dma.channels[channel].take() else { return };
        done.flows.iter().for_each(|&flow| self.traffic.end(flow));
        match done.part.pop() {
            Some(copying) => self.start_dma_transfer(channel, done.mover, copying, done.part),
            None => {
                self.start_queued_dma(channel);
                self.finish_part(done.mover);
            }
        }
    }

    /// Starts a waiting part on a free channel.
    fn start_queued_dma(&mut self, channel: usize) {
        while let Some((mover, mut part)) = self.dma.queue.pop_front() {
            if let Some(copying) = part.pop() {
                return self.start_dma_transfer(channel, mover, copying, part);
            }
            self.finish_part(mover);
        }
    }

    /// Starts a copy on a channel. Load slows it as much as it slows a miss between the two nodes.
    fn start_dma_transfer(
        &mut self,
        channel: usize,
        mover: TaskId,
        copying: LineCopy,
        part: CopyPart,
    ) {
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
        self.dma.channels[channel] = Some(DmaChannel { mover, part, flows });
        let ns = u64::try_from(ns).unwrap_or(u64::MAX).max(1);
        self.events.plan(self.now_ns.saturating_add(ns), SimEvent::DmaDone(channel as u32));
    }
}
