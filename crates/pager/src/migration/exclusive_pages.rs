//! Pages that the kernel refuses as shared although no other process maps them any more: they were
//! shared with a child of fork(2), and not written to since it ended.

use crate::chunk::CHUNK_BYTES;
use crate::page_bits::PageBits;
use crate::region::RegionShared;
use crate::sys::Advice;

/// Pages that are made private by one call.
const UNSHARED_AT_ONCE: usize = 64;

/// Returns the pages of a chunk that are in memory and that no other process maps; none where that
/// cannot be read.
pub fn exclusive_pages(region: &RegionShared, chunk: usize) -> PageBits {
    let mut alone = PageBits::default();
    let range = region.chunk_addresses(chunk);
    region.context.pages.for_each_exclusive(range, |page| alone.insert(page)).ok();
    alone
}

/// Writes to pages without changing them, which makes them private again. The write may fault, so
/// this thread must not have claimed their chunk.
///
/// Who claims it meanwhile may discard the pages or take them out, and each page that is missing
/// costs a fault, which brings it back. So only pages are written to that a look right before
/// finds: at most [`UNSHARED_AT_ONCE`] faults for those that vanish after it.
pub fn unshare(region: &RegionShared, chunk: usize, pages: &PageBits) {
    let (page_bytes, start) = (region.context.page_bytes, region.chunk_bytes(chunk).start);
    for first in (0..CHUNK_BYTES / page_bytes).step_by(UNSHARED_AT_ONCE) {
        let wanted = pages.and(&PageBits::of(first..first + UNSHARED_AT_ONCE));
        if wanted.is_empty() {
            continue;
        }
        for run in wanted.and(&exclusive_pages(region, chunk)).runs() {
            let part = start + run.start * page_bytes..start + run.end * page_bytes;
            // What stays shared is refused again.
            region.mapping.advise(part, Advice::Populate).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;
    use crate::{Pager, PagerOptions, RegionOptions};

    /// Goal: pages that are discarded after they were refused as shared do not come back; those
    /// that are still there keep what is in them.
    #[test]
    fn what_is_discarded_stays_discarded() {
        let pager = Pager::open(&PagerOptions::default()).unwrap();
        let region = pager.reserve(CHUNK_BYTES, &RegionOptions::default()).unwrap();
        let Some(shared) = region.managed() else {
            println!("skipped: no userfaultfd here");
            return;
        };
        let pages = CHUNK_BYTES / shared.context.page_bytes;
        let first_words = || region.words().iter().step_by(shared.context.page_bytes / 8);
        first_words().zip(1..).for_each(|(word, number)| word.store(number, Relaxed));
        assert_eq!(exclusive_pages(shared, 0).len(), pages);
        region.discard(CHUNK_BYTES / 2..CHUNK_BYTES).unwrap();
        unshare(shared, 0, &PageBits::of(0..pages));
        assert_eq!(exclusive_pages(shared, 0), PageBits::of(0..pages / 2));
        let kept = first_words().take(pages / 2).map(|word| word.load(Relaxed));
        assert!(kept.eq(1..=pages as u64 / 2));
    }
}
