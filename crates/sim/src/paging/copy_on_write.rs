//! Copies of shared pages that a process writes to.

use crate::arithmetic::mul_div;
use crate::cpu::LineAccess;
use crate::ids::SpaceId;
use crate::memory::{GranuleRange, PageByte};
use crate::world::World;

impl World {
    /// Copies the shared pages that a process wrote to in a turn through a part. Returns the time
    /// that takes, in nanoseconds, if any are shared.
    pub(crate) fn copy_on_write(
        &mut self,
        cpu: usize,
        lines: &LineAccess,
        done: u64,
    ) -> Option<u64> {
        let GranuleRange { space, region, .. } = lines.range;
        let hit = self.written_in_turn(lines, done, |region| region.shared_with_child.as_ref())?;
        Some(self.copy_shared(cpu, (space, region), &hit))
    }

    /// Copies shared pages for a process as far as there is memory; it retries the rest in its next
    /// turn. Returns the time that takes, in nanoseconds.
    fn copy_shared(&mut self, cpu: usize, place: (SpaceId, usize), pages: &[u64]) -> u64 {
        let (space, region) = place;
        let Some(&child) = self.fork_relations.children.get(&space) else { return 0 };
        let Some(&first) = pages.first() else { return 0 };
        let Some(to) = self.allocation_node(cpu, space, region, first, false) else { return 0 };
        let taken = self.mm().allocate_pages(cpu, to, pages.len() as u64);
        for &page in &pages[..taken.pages as usize] {
            let old = self.spaces[space].regions[region].page(page).node();
            let old = old.expect("only pages that are there are shared");
            let mine = &mut self.spaces[space].regions[region];
            mine.set(page..page + 1, PageByte::on(to));
            mine.shared_with_child.iter_mut().for_each(|shared| shared.remove(page..page + 1));
            self.spaces[child].regions[region].set(page..page + 1, PageByte::on(old));
        }
        self.counters.copied_on_write += taken.pages;
        let params = &self.machine.params;
        let copy_ns = mul_div(params.page_bytes, 1_000_000_000, params.copy_bytes_per_s.max(1));
        let each_ns = params.fault_ns.saturating_add(copy_ns);
        taken.ns.saturating_add(taken.pages.saturating_mul(each_ns))
    }
}
