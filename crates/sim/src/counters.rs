//! What hardware and kernel would count.

use std::collections::BTreeMap;

use crate::scale::scale;
use crate::task::Spent;

/// Everything that is counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Events of the simulation.
    pub events: u64,
    /// Cache lines from memory of the CPU's own node.
    pub local_lines: u64,
    /// Cache lines from memory of other nodes.
    pub remote_lines: u64,
    /// CPU time by what it was spent on, in nanoseconds, in the order of [`Spent::ALL`].
    pub spent_ns: [u64; Spent::ALL.len()],
    /// Interrupts to make CPUs forget translations.
    pub flush_ipis: u64,
    /// Pages that were brought in.
    pub faulted_pages: u64,
    /// Pages that were given back.
    pub freed_pages: u64,
    /// How often the lock of a zone was taken.
    pub zone_visits: u64,
    /// How long that was waited for, in nanoseconds.
    pub zone_waited_ns: u64,
    /// How often it was taken to fill a list, or for a huge page.
    pub zone_refills: u64,
    /// How long that was waited for, in nanoseconds.
    pub zone_refill_waited_ns: u64,
    /// How long locks of zones were held for it, in nanoseconds.
    pub zone_refill_held_ns: u64,
    /// Base pages that went to another node.
    pub migrated_pages: u64,
    /// Tasks that changed their CPU.
    pub task_moves: u64,
    /// Wake-ups of CPUs in a deep idle state.
    pub deep_wakes: u64,
    /// Tasks that changed their node.
    pub task_node_moves: u64,
    /// How long locks of zones were held, in nanoseconds.
    pub zone_held_ns: u64,
    /// How often the lock of a group's page lists was taken.
    pub lru_visits: u64,
    /// How long that was waited for, in nanoseconds.
    pub lru_waited_ns: u64,
    /// Huge pages that were brought in.
    pub huge_faults: u64,
    /// How often all lists were emptied because no zone had anything left.
    pub list_drains: u64,
    /// Processes that ended because there was no memory.
    pub oom_kills: u64,
    /// What workloads did, by name: lines, pages, messages or lives.
    pub done: BTreeMap<String, u64>,
    /// How often CPUs were told to forget translations, with interrupts or without.
    pub flushes: u64,
    /// Base pages that went from a node to another one, by their indices.
    pub migrated: BTreeMap<(usize, usize), u64>,
    /// Faults of pages that were to move to whoever touches them next.
    pub lazy_faults: u64,
    /// Base pages that moved in such a fault.
    pub lazy_pages: u64,
    /// How often threads looked for entries to take away, to learn who touches the pages.
    pub numa_scans: u64,
    /// Threads that went to the node that they prefer.
    pub numa_moves: u64,
    /// Those among them that another thread made room for.
    pub numa_swaps: u64,
    /// Base pages that calls moved.
    pub called_pages: u64,
    /// Cache lines that a last-level cache had.
    pub cache_hits: u64,
    /// Translations that were loaded.
    pub tlb_walks: u64,
    /// How often a CPU went from one task to another one.
    pub switches: u64,
    /// Waits for pages in flight.
    pub flight_waits: u64,
    /// Allocations that failed though there was a page.
    pub failed_allocations: u64,
    /// Folios that somebody took hold of between unmapping and copying.
    pub turned_back: u64,
    /// Interrupts that were answered late.
    pub late_answers: u64,
    /// Counts of accesses that were lost.
    pub lost_samples: u64,
    /// Places of pages that were told as the look before saw them, and had changed.
    pub stale_looks: u64,
    /// Children of processes that were told to fork.
    pub forks: u64,
    /// Base pages that were copied because somebody wrote to them who shared them.
    pub copied_on_write: u64,
}

impl Counters {
    /// Books lines: hits of a thousand, and of a thousand misses those of the own node.
    pub(crate) fn note_lines(&mut self, lines: u64, local: u64, hits: u64, walks: u64) {
        let found = scale(lines, hits, 1000);
        let near = scale(lines - found, local, 1000);
        self.cache_hits += found;
        self.local_lines += near;
        self.remote_lines += lines - found - near;
        self.tlb_walks += scale(lines, walks, 1000);
    }

    /// Books CPU time.
    pub fn spend(&mut self, on: Spent, ns: u64) {
        self.spent_ns[on as usize] += ns;
    }
}
