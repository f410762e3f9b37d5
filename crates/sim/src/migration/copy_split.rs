//! The parts that a copy is cut into, one for each copier.

use std::collections::BTreeMap;

use nodeward_batch::{Batch, CopySlice};
use nodeward_scenario::Params;

use super::batch_folio::BatchFolio;
use crate::cpu::{CopyPart, LineCopy};

/// Returns the granularity at which a copy may be cut, in bytes: lines if a page goes alone, base
/// pages for a few folios, folios for many.
pub fn split_granularity(params: &Params, batch_folios: &[BatchFolio]) -> u64 {
    let size = batch_folios.first().map_or(1, |batch_folio| batch_folio.folio.len());
    let most = u64::from(Batch::PAGES_MAX);
    match size * batch_folios.len() as u64 {
        0 | 1 => params.line_bytes.max(params.page_bytes / most).min(params.page_bytes),
        pages if pages <= most => params.page_bytes,
        _ => params.page_bytes * size,
    }
}

/// Returns the parts of a copy, one for each copier.
pub fn split_copy(
    params: &Params,
    to: usize,
    batch_folios: &[BatchFolio],
    slices: &[CopySlice],
    copiers: usize,
) -> Vec<CopyPart> {
    let cut_bytes = split_granularity(params, batch_folios);
    let pieces = slices.iter().map(|slice| slice.bytes).sum::<u64>() / cut_bytes;
    let count = (copiers as u64).min(pieces).max(1);
    let end_of = |part: u64| pieces * (part + 1) / count * cut_bytes; // as slices were cut
    let (mut part, mut done) = (0, 0);
    let mut parts = vec![BTreeMap::<usize, u64>::new(); count as usize];
    for slice in slices {
        while done >= end_of(part) && part + 1 < count {
            part += 1;
        }
        let mut at = slice.offset;
        while at < slice.offset + slice.bytes {
            let folio_bytes = batch_folios[0].folio.len() * params.page_bytes;
            let batch_folio = &batch_folios[(at / folio_bytes) as usize];
            let end = ((at / folio_bytes + 1) * folio_bytes).min(slice.offset + slice.bytes);
            *parts[part as usize].entry(batch_folio.from).or_default() += end - at;
            at = end;
        }
        done += slice.bytes;
    }
    let lines = |bytes: u64| bytes.div_ceil(params.line_bytes.max(1));
    let of_part = |part: BTreeMap<usize, u64>| {
        part.into_iter().map(|(from, bytes)| LineCopy { from, to, lines: lines(bytes) }).collect()
    };
    parts.into_iter().map(of_part).collect()
}
