//! Samples of a run: points of the time series, and the residency before the first action.

use crate::events::SimEvent;
use crate::memory::Zone;
use crate::statistics::{Moment, NodePoint, Observer, Point, ResidencySnapshot};
use crate::world::World;

impl World {
    /// Sets the observer that receives events from now on.
    pub fn set_observer(&mut self, observer: Box<dyn Observer>) {
        self.recorder.observer = Some(observer);
    }

    /// Takes a sample of the whole machine.
    pub(crate) fn sample(&mut self) {
        self.record_before();
        if self.now_ns < self.recorder.next_ns {
            return; // the sample before the first action
        }
        let point = self.point();
        if let Some(observer) = &mut self.recorder.observer {
            observer.point(&point);
        }
        self.recorder.series.push(point);
        self.recorder.next_ns = self.now_ns + self.recorder.series.every_ns();
        self.events.plan(self.recorder.next_ns, SimEvent::Sample);
    }

    /// Returns the present point.
    pub(crate) fn point(&self) -> Point {
        let node = |node: usize| NodePoint {
            free_pages: self.memory.free(node),
            bytes_per_s: self.traffic.delivered_bytes_per_us(node) * 1_000_000,
        };
        Point {
            at_ns: self.now_ns,
            local_lines: self.counters.local_lines,
            remote_lines: self.counters.remote_lines,
            migrated_pages: self.counters.migrated_pages,
            fault_pages: self.counters.lazy_pages,
            called_pages: self.counters.called_pages,
            busy_cpus: self.sched.running(),
            nodes: (0..self.machine.nodes.len()).map(node).collect(),
        }
    }

    fn record_before(&mut self) {
        if self.recorder.before.is_some() {
            return;
        }
        let first = self.scenario.actions.iter().map(|action| action.at_ns).min();
        let moment = match first {
            Some(first) if self.now_ns + 1 >= first => Moment::FirstAction,
            None if self.is_population_complete() => Moment::Populated,
            _ => return,
        };
        self.recorder.before = Some(self.residency_snapshot(moment));
    }

    /// Returns whether pages are in use, and no more than at the last sample.
    fn is_population_complete(&self) -> bool {
        let free = |node: usize| self.memory.free(node);
        let Some(last) = self.recorder.series.points().last() else { return false };
        let same = last.nodes.iter().enumerate().all(|(node, was)| was.free_pages == free(node));
        let is_used = |(node, zone): (usize, &Zone)| free(node) < zone.managed_pages;
        same && self.memory.zones.iter().enumerate().any(is_used) && self.counters.freed_pages == 0
    }

    /// Returns the present placement of the memory of processes.
    pub(crate) fn residency_snapshot(&self, moment: Moment) -> ResidencySnapshot {
        let nodes = self.machine.nodes.len();
        let mut pages = vec![0; nodes];
        for space in &self.spaces {
            let counts = space.count_all(nodes);
            pages.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        }
        ResidencySnapshot { moment, at_ns: self.now_ns, pages }
    }
}
