//! Soft-dirty bits: after they were cleared, the first write to each page is a fault. A source of
//! accesses sees it.
//!
//! To clear them costs whoever does it a time for each page table entry. That the process cannot
//! map memory meanwhile is left out, and so are the translations that it loses.

use nodeward_machine::{AccessSourceKind, CLEAR_ENTRY_NS};
use nodeward_model::{Access, AccessKind, AccessSample, Accessor};

use crate::cpu::LineAccess;
use crate::ids::{SpaceId, TaskId};
use crate::world::World;

impl World {
    /// Returns the time that it takes to clear the bits of a process, in nanoseconds.
    pub(crate) fn clear_soft_dirty_ns(&self, space: SpaceId) -> u64 {
        let entries = self.spaces[space].regions.iter().map(|region| {
            let folio_entries =
                |page: u64| if region.is_huge(page) { region.chunk_pages() } else { 1 };
            let present = region.present_pages();
            let mut entries = 0;
            let mut page = 0;
            while let Some(next) = present.set_in(page..region.pages).next() {
                page = next + folio_entries(next);
                entries += 1;
            }
            entries
        });
        entries.sum::<u64>() * CLEAR_ENTRY_NS
    }

    /// Clears the bits of a process.
    pub(crate) fn clear_soft_dirty(&mut self, space: SpaceId) {
        for region in self.spaces[space].regions.iter_mut().filter(|region| !region.shared) {
            region.not_written = Some(region.present_pages());
        }
    }

    /// Handles the write faults of a turn of a thread through a part. Returns the time that takes,
    /// in nanoseconds, if the bits were ever cleared.
    pub(crate) fn soft_dirty_faults(
        &mut self,
        cpu: usize,
        task: TaskId,
        lines: &LineAccess,
        done: u64,
    ) -> Option<u64> {
        let (space, region) = (lines.range.space, lines.range.region);
        let written = self.written_in_turn(lines, done, |region| region.not_written.as_ref())?;
        let mut faults = 0;
        for page in written {
            let entry = &mut self.spaces[space].regions[region];
            let folio = if entry.is_huge(page) { entry.folio(page) } else { page..page + 1 };
            let Some(bits) = entry.not_written.as_mut().filter(|bits| bits.contains(page)) else {
                continue; // in a huge page that has faulted in this turn
            };
            bits.remove(folio.clone());
            faults += 1;
            self.observe_write_fault(cpu, task, (space, region), folio.start);
        }
        Some(faults * self.machine.params.fault_ns)
    }

    /// Tells sources that see write faults of one.
    fn observe_write_fault(
        &mut self,
        cpu: usize,
        task: TaskId,
        place: (SpaceId, usize),
        page: u64,
    ) {
        let Some(process) = self.tasks[task as usize].space else { return };
        let Some(address) = self.mapped_address(process, place, page) else { return };
        let (pid, tid) = (self.spaces[process].pid, self.tid(task));
        let accessor = Accessor::Cpu(self.layout.cpus[cpu].id);
        for observer in self.access_observers.of(AccessSourceKind::SoftDirty, pid) {
            observer.push(AccessSample {
                pid,
                tid: Some(tid),
                kind: AccessKind::Write,
                access: Access { address, accessor, count: 1 },
            });
        }
    }
}
