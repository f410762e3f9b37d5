//! Moves in the calling thread, as in a fault.

use nodeward_batch::FolioRun;

use super::batch_folio::{BatchFolio, MigrationContext};
use crate::arithmetic::mul_div;
use crate::cpu::LineCopy;
use crate::events::NEVER_NS;
use crate::memory::PageByte;
use crate::world::World;

impl World {
    /// Moves folios that no CPU can reach, in the calling thread. Folios that cannot move stay.
    pub(crate) fn migrate_synchronously(
        &mut self,
        context: &MigrationContext,
        batch_folios: &mut [BatchFolio],
    ) -> u64 {
        let all = [FolioRun { first: 0, folios: batch_folios.len() as u32 }];
        let mut refused = Vec::new();
        let mut ns = self.unmap_folios(context, batch_folios, &all, &mut refused);
        let mut stayed = refused.iter().map(|refused| refused.folio).peekable();
        let (mut moving, mut bytes) = (Vec::new(), 0);
        for (batch_folio, index) in batch_folios.iter().zip(0..) {
            if stayed.next_if_eq(&index).is_none() {
                moving.push(FolioRun { first: index, folios: 1 });
                let folio = batch_folio.unmap_key(context.space);
                self.fault_model.contents.record_copy(folio, self.now_ns);
                bytes += batch_folio.folio.len() * self.machine.params.page_bytes;
                let lines = self.machine.params.page_bytes / self.machine.params.line_bytes.max(1);
                let lines = lines * batch_folio.folio.len();
                let copying = LineCopy { from: batch_folio.from, to: context.to, lines };
                ns += mul_div(lines, self.copy_line_ps(context.cpu, &copying), 1000).min(NEVER_NS);
                continue;
            }
            let byte = self.spaces[context.space].folio_byte(&batch_folio.folio);
            if let Some(node) = byte.node().filter(|_| !byte.is_in_flight()) {
                self.spaces[context.space].set_folio(&batch_folio.folio, PageByte::on(node));
            }
        }
        self.counters.lazy_pages += bytes / self.machine.params.page_bytes;
        ns += self.map_ns(context, batch_folios, &moving, true);
        refused.clear();
        ns + self.map_copies(context, batch_folios, &moving, &mut refused)
    }
}
