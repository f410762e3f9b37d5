//! The cost of a turn through memory: caches, translations, distance and load.

use crate::arithmetic::mul_div;
use crate::cpu::{LineAccess, Op, TurnWork};
use crate::hardware::Flow;
use crate::ids::{SpaceId, TaskId};
use crate::memory::CachedResidency;
use crate::turns::HitRates;
use crate::world::World;

impl World {
    /// Begins a turn through memory at the present rate.
    pub(crate) fn begin_access(
        &mut self,
        cpu: usize,
        task: TaskId,
        lines: &LineAccess,
        most_ns: u64,
    ) {
        if let Some(ns) = self.scan_when_due(cpu, task) {
            return self.start_turn(cpu, TurnWork::Fault, ns);
        }
        if self.residency_cache.len() <= task as usize {
            self.residency_cache.resize_with(task as usize + 1, CachedResidency::default);
        }
        let mut seen = std::mem::take(&mut self.residency_cache[task as usize]);
        let region = &self.spaces[lines.range.space].regions[lines.range.region];
        seen.refresh(&lines.range, region, self.machine.nodes.len());
        let fault = if seen.has_lazy { self.lazy_fault_ns(cpu, task, lines) } else { None };
        match fault {
            Some(ns) => self.start_turn(cpu, TurnWork::Fault, ns),
            None => self.begin_access_turn(cpu, task, lines, &seen, most_ns),
        }
        self.residency_cache[task as usize] = seen;
    }

    fn begin_access_turn(
        &mut self,
        cpu: usize,
        task: TaskId,
        lines: &LineAccess,
        seen: &CachedResidency,
        most_ns: u64,
    ) {
        let (complex, from) = (self.layout.cpus[cpu].complex, self.layout.node_of(cpu));
        let hit_milli = self.hit_milli(complex, lines, seen);
        let walk_milli = self.walk_milli(lines, seen);
        let latency = |node: usize| self.traffic.latency_ps(complex, from, node);
        let miss_ps =
            seen.pages_by_node().map(|(to, pages)| u128::from(latency(to)) * u128::from(pages));
        let miss_ps = miss_ps.sum::<u128>() / u128::from(seen.pages);
        let rates = HitRates { hit_milli, walk_milli };
        let line_ps = self.line_ps(cpu, &lines.pattern, miss_ps, rates);
        let all = (u128::from(lines.lines) * u128::from(line_ps)).div_ceil(1000);
        let ns = u64::try_from(all).unwrap_or(u64::MAX).min(most_ns);
        if seen.in_flight > 0 && self.touches_page_in_flight(seen, ns, line_ps, lines.reused) {
            self.counters.flight_waits += 1;
            self.spaces[lines.range.space].migration_waiters.push(task);
            return self.block_or_exit(cpu, task, Op::Wait);
        }
        let written = u64::from(1000 + lines.pattern.writes_milli) * (1000 - hit_milli) / 1000;
        let bytes = u128::from(self.machine.params.line_bytes) * u128::from(written);
        let rate = u64::try_from(bytes * 1000 / u128::from(line_ps)).unwrap_or(u64::MAX);
        for (to, pages) in seen.pages_by_node() {
            self.steps += 1;
            let rate = mul_div(rate, pages, seen.pages);
            self.cpus[cpu].begin_flow(&mut self.traffic, Flow { complex, from, to, rate });
        }
        self.charge_tlb_refill(cpu, lines.range.space, seen.translations());
        let local = seen.pages_by_node().find(|&(node, _)| node == from);
        let local_milli = local.map_or(0, |(_, pages)| pages * 1000 / seen.pages);
        self.start_turn(cpu, TurnWork::Access { line_ps, local_milli, hit_milli, walk_milli }, ns);
    }

    /// Returns the hits per 1000 lines in the last-level cache, if the part is reused.
    fn hit_milli(&self, complex: usize, lines: &LineAccess, seen: &CachedResidency) -> u64 {
        let params = &self.machine.params;
        if !lines.reused {
            return 0;
        }
        let share = params.llc_bytes / self.sched.running_in_complex(complex).max(1);
        (share.saturating_mul(1000) / (seen.pages * params.page_bytes)).min(1000)
    }

    /// Returns the lines per 1000 that need a page-table walk. A stream needs one per translation;
    /// other accesses miss the share that the core cannot keep.
    fn walk_milli(&self, lines: &LineAccess, seen: &CachedResidency) -> u64 {
        let params = &self.machine.params;
        let translations = seen.translations();
        if translations <= params.tlb_entries {
            return 0;
        }
        match lines.reused {
            true => 1000 - params.tlb_entries * 1000 / translations,
            false => {
                let size = seen.pages / translations * params.page_bytes;
                params.line_bytes * 1000 / size.max(1)
            }
        }
    }

    /// Returns whether a turn touches a page in flight: always if at least one touch is expected,
    /// else by chance. A stream touches a page once for all of its lines.
    fn touches_page_in_flight(
        &mut self,
        seen: &CachedResidency,
        ns: u64,
        line_ps: u64,
        jumps: bool,
    ) -> bool {
        let params = &self.machine.params;
        let lines = u128::from(ns) * 1000 / u128::from(line_ps);
        let on_page = if jumps { 1 } else { (params.page_bytes / params.line_bytes).max(1) };
        let touches = lines * u128::from(seen.in_flight) * 1_000_000;
        let touches = touches / (u128::from(seen.pages) * u128::from(on_page));
        touches > u128::from(self.rng.next_u64() % 1_000_000)
    }

    fn charge_tlb_refill(&mut self, cpu: usize, space: SpaceId, translations: u64) {
        let cold = &mut self.cpus[cpu].flushed_spaces;
        let Some(at) = cold.iter().position(|&other| other == space) else { return };
        cold.swap_remove(at);
        let params = &self.machine.params;
        let refill = translations.min(params.tlb_entries).saturating_mul(params.tlb_refill_ns);
        self.counters.tlb_walks += translations.min(params.tlb_entries);
        self.charge_interrupt(cpu, refill);
    }
}
