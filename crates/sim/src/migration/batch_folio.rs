//! The folios of a batch.

use std::collections::BTreeSet;

use nodeward_batch::{CopySlice, FolioRefusal, FolioRun, RefusedFolio};
use nodeward_model::SkipReason;

use crate::faults::UnmapKey;
use crate::ids::SpaceId;
use crate::memory::Folio;

/// A folio of a batch.
#[derive(Clone, Debug)]
pub struct BatchFolio {
    /// Its index in the job.
    pub job_index: usize,
    /// The folio itself.
    pub folio: Folio,
    /// Whether it is a huge page.
    pub huge: bool,
    /// Its source node, once it is out of sight.
    pub from: usize,
    /// The flight during which it is out of sight.
    pub unmap_number: u64,
    /// The reason why it stayed, if it did.
    pub skip_reason: SkipReason,
    /// Whether another mover brought it to its destination.
    pub already_there: bool,
}

impl BatchFolio {
    /// Creates an entry for a folio that is on node `from`, with the reason to tell if it stays.
    pub fn new(
        job_index: usize,
        folio: Folio,
        huge: bool,
        from: usize,
        skip_reason: SkipReason,
    ) -> Self {
        let (unmap_number, already_there) = (0, false);
        Self { job_index, folio, huge, from, unmap_number, skip_reason, already_there }
    }

    /// Returns the key of its flight, for the checks of page contents.
    pub fn unmap_key(&self, space: SpaceId) -> UnmapKey {
        ((space, self.folio.region, self.folio.pages.start), self.unmap_number)
    }
}

/// The context of a batch: working CPU, process and destination.
#[derive(Clone, Copy, Debug)]
pub struct MigrationContext {
    /// The CPU that does the work.
    pub cpu: usize,
    /// The process of the folios.
    pub space: SpaceId,
    /// The index of their destination node.
    pub to: usize,
}

/// Returns the indices of the folios of some runs.
pub fn run_indices(runs: &[FolioRun]) -> impl Iterator<Item = usize> + '_ {
    runs.iter().flat_map(|run| run.first as usize..(run.first + run.folios) as usize)
}

/// Returns the indices of the folios that a copy covers, in ascending order.
pub fn folios_in_slices(
    batch_folios: &[BatchFolio],
    slices: &[CopySlice],
    page_bytes: u64,
) -> BTreeSet<usize> {
    let bytes = batch_folios.first().map_or(1, |first| first.folio.len() * page_bytes).max(1);
    let some = slices.iter().filter(|slice| slice.bytes > 0);
    let ends = |slice: &CopySlice| slice.offset / bytes..=(slice.offset + slice.bytes - 1) / bytes;
    some.flat_map(ends).map(|index| index as usize).collect()
}

/// Records that a folio of a batch stays, and why.
pub fn refuse(
    batch_folios: &mut [BatchFolio],
    index: usize,
    why: FolioRefusal,
    refused: &mut Vec<RefusedFolio>,
) {
    let (FolioRefusal::Transient(reason) | FolioRefusal::Final(reason)) = why;
    batch_folios[index].skip_reason = reason;
    refused.push(RefusedFolio { folio: index as u32, refusal: why });
}
