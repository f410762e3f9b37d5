//! The moments of a watch: counts of the kernel, as differences to the moment before.

use nodeward_model::MachineSnapshot;

use super::followed::CpuActivity;
use crate::results::observation::{Unseen, WatchMoment};

/// The moments so far.
pub struct Moments {
    page_bytes: u64,
    all: Vec<WatchMoment>,
    last: KernelCounts,
}

/// What the kernel had counted at a moment.
#[derive(Clone, Copy, Default)]
struct KernelCounts {
    migrated_pages: Option<u64>,
    balancing_pages: Option<u64>,
    stalled_ns: Option<u64>,
}

impl Moments {
    /// Begins without any.
    pub fn new(page_bytes: u64) -> Self {
        Self { page_bytes, all: Vec::new(), last: KernelCounts::default() }
    }

    /// Returns whether there was none yet.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Returns when the last one was.
    pub fn last_ns(&self) -> u64 {
        self.all.last().map_or(0, |moment| moment.at_ns)
    }

    /// Adds a moment.
    pub fn add(
        &mut self,
        at_ns: u64,
        snapshot: &MachineSnapshot,
        activity: CpuActivity,
        local_ppm: Option<u64>,
    ) {
        let now = KernelCounts {
            migrated_pages: snapshot.migrated_pages,
            balancing_pages: snapshot.balancing_pages,
            stalled_ns: snapshot.pressure_stall_ns,
        };
        let is_first = self.is_empty();
        let before = std::mem::replace(&mut self.last, now);
        let since = |now: Option<u64>, before: Option<u64>| {
            Some(now?.saturating_sub(if is_first { now? } else { before? }))
        };
        let used = snapshot.nodes.iter().map(|(&node, seen)| {
            let used = seen.pages.saturating_sub(seen.headroom.free_pages);
            (node, used.saturating_mul(self.page_bytes))
        });
        self.all.push(WatchMoment {
            at_ns,
            node_used_bytes: used.collect(),
            cpu_ns: activity.cpu_ns,
            threads: activity.threads,
            migrated_pages: since(now.migrated_pages, before.migrated_pages),
            balancing_pages: since(now.balancing_pages, before.balancing_pages),
            stalled_ns: since(now.stalled_ns, before.stalled_ns),
            local_ppm,
        });
    }

    /// Returns what the kernel did not count.
    pub fn unseen(&self) -> Vec<Unseen> {
        let lacks =
            |of: fn(&WatchMoment) -> Option<u64>| self.all.iter().all(|it| of(it).is_none());
        let all = [
            (
                lacks(|it| it.migrated_pages),
                "pages that others moved",
                "this machine does not count migrated pages (pgmigrate_success in /proc/vmstat)",
            ),
            (
                lacks(|it| it.balancing_pages),
                "pages that the kernel's NUMA balancing moved",
                "this machine does not count them (numa_pages_migrated in /proc/vmstat)",
            ),
            (
                lacks(|it| it.stalled_ns),
                "stalls for want of memory",
                "this machine does not measure them (/proc/pressure/memory; psi=1 at the kernel's \
                 command line)",
            ),
        ];
        let lacking = all.into_iter().filter(|(lacks, ..)| *lacks);
        lacking.map(|(_, what, why)| Unseen { what: what.into(), why: why.into() }).collect()
    }

    /// Returns all of them.
    pub fn into_all(self) -> Vec<WatchMoment> {
        self.all
    }
}
