//! The scan of a process's memory by its own threads: entries that are cleared, so that the next
//! access takes a fault.

use crate::cpu::ScanCursor;
use crate::ids::{SpaceId, TaskId};
use crate::memory::MemoryRegion;
use crate::world::World;

/// Virtual pages that a scan may visit, for each page that it may mark.
const VIRTUAL_PER_MARKED: u64 = 8;
/// The run time of scans is at most 1/33 of a thread's run time: 3 %.
const SCAN_SHARE: u64 = 32;
/// Two ticks: the least time before a thread begins its next scan.
const TICKS_NS: u64 = 8_000_000;

impl World {
    /// Scans the process's memory if a scan of this thread is due. Returns the time that takes
    /// (ns).
    pub(crate) fn scan_when_due(&mut self, cpu: usize, task: TaskId) -> Option<u64> {
        let space = self.tasks[task as usize].space?;
        let ran_ns = self.tasks[task as usize].cpu_time_ns;
        let (now_ns, params) = (self.now_ns, &self.machine.params);
        let numa = self.numa_balancing.as_mut()?;
        let pace = *numa.scan_period(params, task);
        if ran_ns <= pace.paid_until_ns + pace.period_ns {
            return None;
        }
        let delay_ns = params.numa_scan_delay_ns;
        let first = || ScanCursor { next_ns: delay_ns, ..ScanCursor::default() };
        let due = now_ns >= numa.scans.entry(space).or_insert_with(first).next_ns;
        if pace.paid_until_ns == 0 {
            let pages = self.spaces[space].resident_pages(self.machine.nodes.len());
            let params = &self.machine.params;
            let numa = self.numa_balancing.as_mut()?;
            let begin_ns = numa.scan_period_bounds_ns(params, space, pages).2;
            numa.scan_period(params, task).period_ns = begin_ns;
        }
        let params = &self.machine.params;
        let pace_now = self.numa_balancing.as_mut()?.scan_period(params, task);
        pace_now.paid_until_ns += pace.period_ns;
        due.then(|| self.scan(cpu, task, space))
    }

    /// Clears entries of a process, and of the segments that it maps, from the end of the last scan
    /// on.
    pub(crate) fn scan(&mut self, cpu: usize, task: TaskId, space: SpaceId) -> u64 {
        let params = &self.machine.params;
        let most = (params.numa_scan_bytes / params.page_bytes.max(1)).max(1);
        let Some(numa) = self.numa_balancing.as_mut() else { return 0 };
        let period_ns = numa.scan_period(params, task).period_ns;
        let Some(scan) = numa.scans.get_mut(&space) else { return 0 };
        scan.next_ns = self.now_ns + period_ns;
        let (mut marked, mut entries, mut virtual_left) = (0, 0, most * VIRTUAL_PER_MARKED);
        let own = self.spaces[space].regions.len();
        let segments = self.spaces[space].segments.clone();
        let all = own + segments.len();
        while scan.region < all && marked < most {
            let (of, index) = match scan.region.checked_sub(own) {
                None => (space, scan.region),
                Some(segment) => (segments[segment].space, 0),
            };
            let region = &mut self.spaces[of].regions[index];
            if !region.placement.is_memory_policy() {
                let stretch = mark_lazy(region, scan.page, most - marked, virtual_left);
                marked += stretch.marked;
                entries += stretch.entries;
                virtual_left -= stretch.end - scan.page;
                scan.page = stretch.end;
                if scan.page < region.pages {
                    break;
                }
            }
            (scan.region, scan.page) = (scan.region + 1, 0);
        }
        // A scan that has marked enough stops where it is. If that is the end of memory, the next
        // scan finds only small mappings behind it, and begins anew.
        if scan.region >= all && marked < most {
            scan.seq = scan.seq.wrapping_add(1);
            (scan.region, scan.page) = (0, 0);
        }
        self.counters.numa_scans += 1;
        let unmap_ns = entries * self.machine.params.unmap_page_ns;
        let ns = unmap_ns.saturating_add(self.shoot_down_tlb(cpu, space, entries));
        let params = &self.machine.params;
        if let Some(numa) = self.numa_balancing.as_mut() {
            numa.scan_period(params, task).paid_until_ns += SCAN_SHARE * ns + TICKS_NS;
        }
        ns.max(1)
    }
}

/// Result of marking.
struct ScanProgress {
    /// Base pages marked.
    marked: u64,
    /// Their entries: one for a huge page.
    entries: u64,
    /// The page after the last one visited.
    end: u64,
}

/// Marks at most `most` pages from a page on, and visits at most `looks` pages.
fn mark_lazy(region: &mut MemoryRegion, begin: u64, most: u64, looks: u64) -> ScanProgress {
    let mut done = ScanProgress { marked: 0, entries: 0, end: begin };
    let last = region.pages.min(begin.saturating_add(looks));
    while done.end < last && done.marked < most {
        let page = done.end;
        let limit = last.min(page + (most - done.marked));
        let is_huge = region.is_huge(page);
        let (byte, alike) = match is_huge {
            true => (region.page(page), region.folio(page).end - page),
            false => region.uniform_run(page, limit),
        };
        if byte.node().is_some() && !byte.is_in_flight() && !byte.is_lazy() {
            region.set(page..page + alike, byte.lazy());
            done.marked += alike;
            done.entries += if is_huge { 1 } else { alike };
        }
        done.end = page + alike;
    }
    done
}
