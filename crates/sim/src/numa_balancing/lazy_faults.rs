//! Faults on pages that are marked to move to the node of the next access (migrate-on-fault).
//!
//! The thread that touches such a page takes a fault, and if the page is on another node, the fault
//! moves it in that thread. Each page therefore costs one fault, and only pages that are used move.
//! Where the kernel's NUMA balancing is on, such entries are its hints, and it decides page by
//! page.

use nodeward_model::SkipReason;

use crate::arithmetic::mul_div;
use crate::cpu::{LineAccess, TURN_NS};
use crate::ids::TaskId;
use crate::memory::{Folio, PageByte};
use crate::migration::{BatchFolio, MigrationContext};
use crate::world::World;

/// Maximum number of faults handled at a stretch. Between two stretches others can take the locks.
const FAULTS_MAX: u64 = 32;

impl World {
    /// Returns the time (ns) of the faults that a turn through memory meets, if there are any. They
    /// come before the turn: the task calls again afterwards, and gets `None` when it may go on.
    pub(crate) fn lazy_fault_ns(
        &mut self,
        cpu: usize,
        task: TaskId,
        lines: &LineAccess,
    ) -> Option<u64> {
        let due = match self.lazy_faults_due.remove(&task) {
            Some(0) => return None,
            Some(due) => due,
            None => self.lazy_faults_of_turn(cpu, lines),
        };
        if due == 0 {
            return None;
        }
        let home = self.tasks[task as usize].home.filter(|_| self.numa_balancing.is_none());
        let to = home.unwrap_or(self.layout.node_of(cpu));
        let folios = self.lazy_folios(lines, due.min(FAULTS_MAX));
        let left = if folios.is_empty() { 0 } else { due.saturating_sub(folios.len() as u64) };
        self.lazy_faults_due.insert(task, left);
        let context = MigrationContext { cpu, space: lines.range.space, to };
        (!folios.is_empty()).then(|| self.handle_lazy_faults(task, &context, folios))
    }

    /// Returns the number of lazy folios that a whole turn touches. A stream goes page by page,
    /// other accesses jump from line to line.
    fn lazy_faults_of_turn(&mut self, cpu: usize, lines: &LineAccess) -> u64 {
        let nodes = self.machine.nodes.len();
        let counts = self.spaces[lines.range.space].count(&lines.range, nodes);
        let pages: u64 = counts[..nodes].iter().sum();
        let lazy = counts[nodes];
        let (place, params) = (&self.layout.cpus[cpu], &self.machine.params);
        let miss_ps = self.traffic.latency_ps(place.complex, place.node, place.node);
        let wait_ps = mul_div(miss_ps, 1000, u64::from(lines.pattern.parallel_milli));
        let line_ps = wait_ps.saturating_add(lines.pattern.compute_ps).max(1);
        let per_page = match lines.reused {
            true => 1,
            false => (params.page_bytes / params.line_bytes.max(1)).max(1),
        };
        let touched = u128::from(lines.lines.min(TURN_NS * 1000 / line_ps)) / u128::from(per_page);
        let milli = touched * u128::from(lazy) * 1000 / u128::from(pages.max(1));
        let milli = u64::try_from(milli).unwrap_or(u64::MAX);
        let rest = u64::from(self.rng.next_u64() % 1000 < milli % 1000);
        (milli / 1000 + rest).min(lazy)
    }

    /// Returns the next lazy folios of one size in the part, from a random granule on.
    fn lazy_folios(&mut self, lines: &LineAccess, most: u64) -> Vec<Folio> {
        let part = &lines.range;
        let begin = self.rng.next_u64() % part.granules.max(1) as u64;
        let region = &self.spaces[part.space].regions[part.region];
        let lazy = self.machine.nodes.len();
        let (mut folios, mut size) = (Vec::new(), 0);
        for step in 0..part.granules {
            let granule = part.first + (begin as usize + step) % part.granules;
            let mut counts = vec![0; lazy + 2];
            region.add_counts(granule..granule + 1, &mut counts);
            let mut pages = region.pages_of_granules(granule..granule + 1);
            while counts[lazy] > 0 && !pages.is_empty() {
                let page = pages.start;
                let byte = region.page(page);
                if !byte.is_lazy() || byte.is_in_flight() {
                    pages.start = page + region.uniform_run(page, pages.end).1;
                    continue;
                }
                pages.start = region.folio(page).end.min(pages.end);
                let folio = pages.start - page;
                if folios.len() as u64 == most || size > 0 && size != folio {
                    return folios;
                }
                size = folio;
                folios.push(Folio { region: part.region, pages: page..pages.start });
            }
        }
        folios
    }

    /// Handles faults on these folios by a thread whose node is the destination.
    fn handle_lazy_faults(
        &mut self,
        task: TaskId,
        context: &MigrationContext,
        folios: Vec<Folio>,
    ) -> u64 {
        let params = &self.machine.params;
        let faults = match folios[0].len() {
            1 => (folios.len() as u64).div_ceil(params.lazy_pages.max(1)),
            _ => folios.len() as u64,
        };
        self.counters.lazy_faults += faults;
        let mut ns = faults * params.hint_fault_ns;
        if self.numa_balancing.is_some() {
            return ns + self.handle_hint_faults(task, context, folios);
        }
        let mut batch_folios = Vec::new();
        for folio in folios {
            let node = self.spaces[context.space].folio_byte(&folio).node();
            let node = node.expect("a page that is lazy is somewhere");
            if node == context.to {
                self.spaces[context.space].set_folio(&folio, PageByte::on(node));
                continue;
            }
            let huge = self.spaces[context.space].is_huge_folio(&folio);
            batch_folios.push(BatchFolio::new(0, folio, huge, node, SkipReason::Refused));
        }
        ns += self.migrate_synchronously(context, &mut batch_folios);
        ns
    }
}
