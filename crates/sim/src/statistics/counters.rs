//! Counters that hardware and the kernel would provide.

use std::collections::BTreeMap;

use super::cpu_time::CpuTimeKind;
use crate::arithmetic::mul_div;

/// All counters of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Simulation events processed.
    pub events: u64,
    /// Cache lines served by memory of the CPU's own node.
    pub local_lines: u64,
    /// Cache lines served by memory of other nodes.
    pub remote_lines: u64,
    /// CPU time by purpose, in nanoseconds, in the order of [`CpuTimeKind::ALL`].
    pub spent_ns: [u64; CpuTimeKind::ALL.len()],
    /// Interrupts sent to make CPUs flush translations.
    pub flush_ipis: u64,
    /// Base pages that were faulted in.
    pub faulted_pages: u64,
    /// Base pages that were freed.
    pub freed_pages: u64,
    /// Acquisitions of zone locks.
    pub zone_visits: u64,
    /// Time spent waiting for zone locks, in nanoseconds.
    pub zone_waited_ns: u64,
    /// Acquisitions of zone locks to fill a list or to allocate a huge page.
    pub zone_refills: u64,
    /// Time spent waiting for zone locks for those refills, in nanoseconds.
    pub zone_refill_waited_ns: u64,
    /// Time that zone locks were held for those refills, in nanoseconds.
    pub zone_refill_held_ns: u64,
    /// Base pages that moved to another node.
    pub migrated_pages: u64,
    /// Task moves between CPUs.
    pub task_moves: u64,
    /// Wake-ups of CPUs in a deep idle state.
    pub deep_wakes: u64,
    /// Task moves between nodes.
    pub task_node_moves: u64,
    /// Time that zone locks were held, in nanoseconds.
    pub zone_held_ns: u64,
    /// Acquisitions of the LRU lock of a group.
    pub lru_visits: u64,
    /// Time spent waiting for LRU locks, in nanoseconds.
    pub lru_waited_ns: u64,
    /// Huge pages that were faulted in.
    pub huge_faults: u64,
    /// Times that all per-CPU lists were drained because no zone had a free page.
    pub list_drains: u64,
    /// Processes killed because no memory was left.
    pub oom_kills: u64,
    /// Work done by workload name: lines, pages, messages or lives.
    pub work_done: BTreeMap<String, u64>,
    /// Translation flushes, with interrupts or without.
    pub flushes: u64,
    /// Base pages moved, by indices of source and destination node.
    pub migrated: BTreeMap<(usize, usize), u64>,
    /// Faults on pages that are marked to move to the node of the next access.
    pub lazy_faults: u64,
    /// Base pages moved in such a fault.
    pub lazy_pages: u64,
    /// Scans in which threads marked entries to learn which threads touch the pages.
    pub numa_scans: u64,
    /// Threads that moved to their preferred node.
    pub numa_moves: u64,
    /// Of those, threads that swapped places with another thread.
    pub numa_swaps: u64,
    /// Base pages moved by calls.
    pub called_pages: u64,
    /// Cache lines served by a last-level cache.
    pub cache_hits: u64,
    /// Translations loaded by page-table walks.
    pub tlb_walks: u64,
    /// Switches of a CPU from one task to another.
    pub switches: u64,
    /// Waits for pages in flight.
    pub flight_waits: u64,
    /// Allocations that failed although a page was free.
    pub failed_allocations: u64,
    /// Folios that were pinned between unmapping and copying, so that their move was undone.
    pub turned_back: u64,
    /// Interrupts that were answered late.
    pub late_answers: u64,
    /// Access samples that were lost.
    pub lost_samples: u64,
    /// Page places reported from the previous look although they had changed since.
    pub stale_looks: u64,
    /// Children created by the action `fork`.
    pub forks: u64,
    /// Base pages copied because a process wrote to a shared page.
    pub copied_on_write: u64,
}

impl Counters {
    /// Counts cache lines. `hits` and `walks` are per 1000 lines. `local` is per 1000 misses: those
    /// served by the CPU's own node.
    pub(crate) fn record_lines(&mut self, lines: u64, local: u64, hits: u64, walks: u64) {
        let found = mul_div(lines, hits, 1000);
        let near = mul_div(lines - found, local, 1000);
        self.cache_hits += found;
        self.local_lines += near;
        self.remote_lines += lines - found - near;
        self.tlb_walks += mul_div(lines, walks, 1000);
    }

    /// Counts CPU time.
    pub fn record_cpu_time(&mut self, on: CpuTimeKind, ns: u64) {
        self.spent_ns[on as usize] += ns;
    }
}

impl Counters {
    /// Returns all counters of reports, by their names there.
    pub fn named(&self) -> Vec<(&'static str, u64)> {
        let counters = self;
        let all = [
            ("local_lines", counters.local_lines),
            ("remote_lines", counters.remote_lines),
            ("flush_ipis", counters.flush_ipis),
            ("faulted_pages", counters.faulted_pages),
            ("freed_pages", counters.freed_pages),
            ("migrated_pages", counters.migrated_pages),
            ("zone_visits", counters.zone_visits),
            ("zone_waited_ns", counters.zone_waited_ns),
            ("zone_held_ns", counters.zone_held_ns),
            ("zone_refills", counters.zone_refills),
            ("zone_refill_waited_ns", counters.zone_refill_waited_ns),
            ("zone_refill_held_ns", counters.zone_refill_held_ns),
            ("lru_visits", counters.lru_visits),
            ("lru_waited_ns", counters.lru_waited_ns),
            ("huge_faults", counters.huge_faults),
            ("list_drains", counters.list_drains),
            ("oom_kills", counters.oom_kills),
            ("flushes", counters.flushes),
            ("lazy_faults", counters.lazy_faults),
            ("lazy_pages", counters.lazy_pages),
            ("numa_scans", counters.numa_scans),
            ("numa_moves", counters.numa_moves),
            ("numa_swaps", counters.numa_swaps),
            ("called_pages", counters.called_pages),
            ("cache_hits", counters.cache_hits),
            ("tlb_walks", counters.tlb_walks),
            ("flight_waits", counters.flight_waits),
            ("switches", counters.switches),
            ("deep_wakes", counters.deep_wakes),
            ("task_moves", counters.task_moves),
            ("task_node_moves", counters.task_node_moves),
            ("failed_allocations", counters.failed_allocations),
            ("turned_back", counters.turned_back),
            ("late_answers", counters.late_answers),
            ("lost_samples", counters.lost_samples),
            ("stale_looks", counters.stale_looks),
            ("forks", counters.forks),
            ("copied_on_write", counters.copied_on_write),
        ];
        all.to_vec()
    }
}
