//! Base pages of a chunk that arrive together as one huge page.
//!
//! A huge page is mapped in the place of a page table. Once all pages of a chunk are out of sight,
//! its page table is empty, and MADV_DONTNEED makes the kernel free it (Linux 6.14,
//! CONFIG_PT_RECLAIM). A thread that faults between that call and the mapping brings a page table
//! back. Then UFFDIO_MOVE splits the huge page and maps its parts as base pages: they are on the
//! destination, and nothing is lost.

use std::time::Instant;

use super::batch_runner::{BatchRunner, folio_indices, reason_to_stop, record_hold};
use super::chunk_move::ChunkMove;
use super::report::{MigrationReport, elapsed_ns};
use super::task::MoveParams;
use crate::chunk::{CHUNK_BYTES, PageSize};
use crate::page_bits::{PAGES_MAX, PageBits};

impl BatchRunner {
    /// Moves all pages of a chunk into a huge page, in one batch. Returns `false` if there is none,
    /// or no batch may begin; then nothing is done.
    pub fn migrate_to_huge_page(
        &mut self,
        chunk_move: &ChunkMove<'_>,
        pages: &PageBits,
        params: &mut MoveParams<'_>,
        report: &mut MigrationReport,
    ) -> bool {
        if reason_to_stop(chunk_move, params).is_some() {
            return false;
        }
        let began = Instant::now();
        let target = self.slots.huge_target(chunk_move, params.options.supply);
        report.step_times.supply_ns += elapsed_ns(began);
        let Some(target) = target else { return false };
        let mut room = [0; PAGES_MAX];
        let folios = folio_indices(PageSize::Base, pages, &mut room);
        let hold_ns = self.run_batch(chunk_move, folios, target, report);
        if let Some(stall) = params.stall {
            record_hold(stall, PageSize::Base, folios.len() as u64, hold_ns);
        }
        params.control.examined(CHUNK_BYTES as u64);
        true
    }
}
