//! Splits a copy between copiers.

use crate::{BatchShape, CopySlice, FolioRun};

/// Splits the bytes of `runs` into one part for each copier (or page, if those are fewer), whose
/// sizes differ by at most one page. A part that spans a hole between two runs is more than one
/// slice, so there are at most `runs + copiers - 1` slices, and never more than pages.
pub fn split_copy(runs: &[FolioRun], shape: &BatchShape, slices: &mut Vec<CopySlice>) {
    let folio_pages = u64::from(shape.folio_pages);
    let pages: u64 = runs.iter().map(|run| u64::from(run.folios) * folio_pages).sum();
    let parts = u64::from(shape.copiers).min(pages);
    let end_of = |part: u64| pages * (part + 1) / parts;
    let (mut part, mut done) = (0, 0);
    slices.clear();
    for run in runs {
        let mut at = u64::from(run.first) * folio_pages;
        let end = at + u64::from(run.folios) * folio_pages;
        while at < end {
            let take = (end - at).min(end_of(part) - done);
            slices
                .push(CopySlice { offset: at * shape.page_bytes, bytes: take * shape.page_bytes });
            at += take;
            done += take;
            part += u64::from(done == end_of(part));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the slices of runs (first folio, folios), as (page, pages).
    fn slices(folio_pages: u32, copiers: u32, runs: &[(u32, u32)]) -> Vec<(u64, u64)> {
        let runs: Vec<FolioRun> =
            runs.iter().map(|&(first, folios)| FolioRun { first, folios }).collect();
        let shape = BatchShape { folios: 16, folio_pages, page_bytes: 4096, copiers, attempts: 1 };
        let mut slices = Vec::new();
        split_copy(&runs, &shape, &mut slices);
        slices.iter().map(|slice| (slice.offset / 4096, slice.bytes / 4096)).collect()
    }

    /// Goal: parts are equal, or as nearly so as pages permit.
    #[test]
    fn copiers_have_the_same_to_do() {
        assert_eq!(slices(1, 1, &[(0, 16)]), [(0, 16)]);
        assert_eq!(slices(1, 4, &[(0, 16)]), [(0, 4), (4, 4), (8, 4), (12, 4)]);
        assert_eq!(slices(1, 3, &[(0, 16)]), [(0, 5), (5, 5), (10, 6)]); // 16/3, 32/3, 48/3
        assert_eq!(slices(16, 2, &[(0, 1)]), [(0, 8), (8, 8)], "a folio is cut, too");
    }

    /// Goal: folios that are not unmapped are not copied, and do not count.
    #[test]
    fn holes_end_a_slice_and_not_a_part() {
        // 8 pages in parts of 4: the first ends inside the second run.
        assert_eq!(slices(1, 2, &[(1, 3), (6, 5)]), [(1, 3), (6, 1), (7, 4)]);
        // Two folios of 4 pages: the hole is between the parts.
        assert_eq!(slices(4, 2, &[(0, 1), (3, 1)]), [(0, 4), (12, 4)]);
    }

    /// Goal: a copier without a page gets no slice, rather than an empty one.
    #[test]
    fn more_copiers_than_pages() {
        assert_eq!(slices(1, 9, &[(3, 2)]), [(3, 1), (4, 1)]);
        assert_eq!(slices(1, u32::MAX, &[]), []);
    }
}
