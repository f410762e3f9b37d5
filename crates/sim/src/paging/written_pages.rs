//! Which pages of a set a turn through memory writes to.

use crate::arithmetic::mul_div;
use crate::cpu::LineAccess;
use crate::memory::{GranuleRange, MemoryRegion, RegionBits};
use crate::world::World;

impl World {
    /// Returns the pages of a set to which a turn through `done` lines of a part wrote, without
    /// those in flight; `None` if the region has no such set. A stream writes to a page once for
    /// all of its lines.
    pub(super) fn written_in_turn(
        &mut self,
        lines: &LineAccess,
        done: u64,
        set_of: impl Fn(&MemoryRegion) -> Option<&RegionBits>,
    ) -> Option<Vec<u64>> {
        let GranuleRange { space, region, first, granules } = lines.range;
        let entry = &self.spaces[space].regions[region];
        let set = set_of(entry)?;
        let pages = entry.pages_of_granules(first..first + granules);
        let count = set.set_in(pages.clone()).count() as u64;
        let params = &self.machine.params;
        let on_page = if lines.reused { 1 } else { (params.page_bytes / params.line_bytes).max(1) };
        let written = mul_div(done / on_page, u64::from(lines.pattern.writes_milli), 1000);
        let milli = mul_div(written * 1000, count, (pages.end - pages.start).max(1));
        let [rest, begin] = [(); 2].map(|()| self.fault_model.rng.next_u64());
        let hit = (milli / 1000 + u64::from(rest % 1000 < milli % 1000)).min(count) as usize;
        let middle = pages.start + begin % (pages.end - pages.start).max(1);
        let in_turn = set.set_in(middle..pages.end).chain(set.set_in(pages.start..middle));
        let in_sight = in_turn.filter(|&page| !entry.page(page).is_in_flight());
        Some(in_sight.take(hit).collect())
    }
}
