//! Chooses the node that a thread prefers, by its faults and by those of the threads that it shares
//! pages with.

use crate::cpu::TaskNumaFaults;
use crate::ids::{SpaceId, TaskId};
use crate::migration::MigrationContext;
use crate::world::World;

/// Interval between two attempts of a thread to move to its preferred node, unless [`RETRY_PART`]
/// makes it shorter.
const RETRY_NS: u64 = 1_000_000_000;
/// The interval is at most this fraction (1/16) of the scan period.
const RETRY_PART: u64 = 16;

impl World {
    /// Places a thread after a scan, and sends it to its preferred node at intervals.
    pub(crate) fn place_when_due(&mut self, task: TaskId, context: &MigrationContext) {
        let nodes = self.machine.nodes.len();
        let now_ns = self.now_ns;
        let Some(numa) = self.numa_balancing.as_mut() else { return };
        let faults = numa.faults.entry(task).or_insert_with(|| TaskNumaFaults::new(nodes));
        if now_ns <= faults.retry_ns {
            return;
        }
        // The page may be one of a segment.
        let process = self.tasks[task as usize].space.unwrap_or(context.space);
        let preferred = self.place_by_faults(task, process);
        let Some(numa) = self.numa_balancing.as_mut() else { return };
        let period_ns = numa.scan_period(&self.machine.params, task).period_ns;
        if let Some(faults) = numa.faults.get_mut(&task) {
            faults.retry_ns = now_ns + RETRY_NS.min(period_ns / RETRY_PART);
        }
        if let Some(to) = preferred.filter(|&to| to != context.to) {
            self.migrate_to_preferred(task, process, to);
        }
    }

    /// Chooses the node that a thread prefers, once after each scan (`task_numa_placement`).
    fn place_by_faults(&mut self, task: TaskId, space: SpaceId) -> Option<usize> {
        let (now_ns, ran_ns) = (self.now_ns, self.tasks[task as usize].cpu_time_ns);
        let rss_pages = self.spaces[space].resident_pages(self.machine.nodes.len());
        let numa = self.numa_balancing.as_mut()?;
        let seq = numa.scans.get(&space).map_or(0, |scan| scan.seq);
        let faults = numa.faults.get_mut(&task)?;
        if faults.seq == seq {
            return faults.preferred;
        }
        faults.seq = seq;
        let (since_ns, had_ns) = faults.placed_ns.replace((now_ns, ran_ns)).unwrap_or((0, 0));
        let group = numa.groups.get_mut(&space).filter(|_| faults.in_group);
        let kinds = match group {
            None => faults.decay(ran_ns - had_ns, now_ns - since_ns),
            Some(group) => {
                group.add_or_subtract(faults, false);
                let kinds = faults.decay(ran_ns - had_ns, now_ns - since_ns);
                group.add_or_subtract(faults, true);
                kinds
            }
        };
        let of = |node: usize| match numa.groups.get(&space).filter(|_| faults.in_group) {
            Some(group) => group.memory_faults(node),
            None => faults.memory_faults(node),
        };
        let count = self.machine.nodes.len();
        let most = (0..count).rev().max_by_key(|&node| of(node)).filter(|&node| of(node) > 0);
        if most.is_some() {
            faults.preferred = most;
        }
        let preferred = faults.preferred;
        numa.update_scan_period(&self.machine.params, now_ns, task, space, rss_pages, kinds);
        self.set_home(task, preferred);
        preferred
    }
}
