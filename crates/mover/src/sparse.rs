//! Decides which memory is looked at page by page, and which is left to a walk inside the kernel.
//!
//! Where the kernel does not list what is populated, a look costs time for each page table of
//! addresses, also where there is none. Mappings without pages are left out. The densest are looked
//! at; all of them together may have as many page tables as the process has pages. The others are
//! nearly empty: terabytes that AddressSanitizer, a garbage collector or a database has reserved.
//! They are left to the walk, or searched where a walk will not do ([`crate::sparse_search`]).

use std::collections::BTreeMap;
use std::sync::Arc;

use nodeward_machine::PagesByMapping;
use nodeward_model::{Mapping, Range};

use crate::outcomes::{NodeCounts, add_counts};

/// The range of one page table of the kernel.
pub const PAGE_TABLE_BYTES: u64 = 2 << 20;
/// Number of page tables that are always looked at: 2 GiB of addresses, about 1 ms.
pub const TABLES_MIN: u64 = 1024;

/// A range of address space and the mapping that it is in.
pub type UnitPiece = (Arc<Mapping>, Range);

/// The selected memory of a process.
#[derive(Debug, Default)]
pub struct SelectedMemory {
    /// The memory that is looked at, in ascending order.
    pub pieces: Vec<UnitPiece>,
    /// The pages of the other mappings, which only the kernel looks at.
    pub walked: PagesByMapping,
    /// Nearly empty mappings that are not left to it, with the pages that it has counted there.
    pub sparse: Vec<(UnitPiece, u64)>,
}

/// Divides selected memory by the pages that the kernel counted in each mapping. Memory that was
/// not counted is looked at. Nothing is left to the kernel if that were more than
/// `walked_pages_max` pages.
pub fn divide(
    selected: Vec<UnitPiece>,
    counted: &PagesByMapping,
    walked_pages_max: u64,
) -> SelectedMemory {
    let pages = |piece: &UnitPiece| Some(counted_in(counted, piece.0.range)?.values().sum::<u64>());
    let pieces: Vec<UnitPiece> =
        selected.into_iter().filter(|piece| pages(piece) != Some(0)).collect();
    let left = sparse(&pieces, &|piece| pages(piece));
    let (sparse, pieces): (Vec<UnitPiece>, _) =
        pieces.into_iter().partition(|piece| left.contains_key(&piece.1));
    if left.values().sum::<u64>() > walked_pages_max {
        let with_pages = |piece: UnitPiece| {
            let pages = left[&piece.1];
            (piece, pages)
        };
        let sparse = sparse.into_iter().map(with_pages).collect();
        return SelectedMemory { pieces, sparse, ..SelectedMemory::default() };
    }
    let of_mapping =
        |(mapping, _): &UnitPiece| Some((mapping.range, counted_in(counted, mapping.range)?));
    let walked = sparse.iter().filter_map(of_mapping).collect();
    SelectedMemory { pieces, walked, ..SelectedMemory::default() }
}

/// Returns the pages by node that the kernel counted in a mapping; `None` if it did not. A program
/// at work maps and unmaps meanwhile: then the pages of what is there instead.
pub fn counted_in(counted: &PagesByMapping, mapping: Range) -> Option<NodeCounts> {
    if let Some(pages) = counted.get(&mapping) {
        return Some(pages.clone());
    }
    let mut there = overlapping(counted, mapping).peekable();
    there.peek()?;
    let mut pages = NodeCounts::new();
    there.for_each(|(_, more)| add_counts(&mut pages, more));
    Some(pages)
}

/// Returns the same of a part of mappings; `None` also if a mapping that the kernel counted is only
/// partly in it.
pub fn counted_within(counted: &PagesByMapping, part: Range) -> Option<NodeCounts> {
    let is_within = |(range, _): (&Range, _)| part.start <= range.start && range.end <= part.end;
    let all_are = overlapping(counted, part).all(is_within);
    all_are.then(|| counted_in(counted, part)).flatten()
}

/// Returns the counted mappings that overlap a range, the last first.
fn overlapping(
    counted: &PagesByMapping,
    with: Range,
) -> impl Iterator<Item = (&Range, &NodeCounts)> {
    let before_its_end = counted.range(..Range::new(with.end, with.end));
    before_its_end.rev().take_while(move |(range, _)| range.end > with.start)
}

/// Returns the pieces that are too empty to be looked at, with their pages.
fn sparse(pieces: &[UnitPiece], pages: &dyn Fn(&UnitPiece) -> Option<u64>) -> BTreeMap<Range, u64> {
    let countable = |piece: &&UnitPiece| piece.0.huge_page_bytes.is_none();
    let mut counted: Vec<(Range, u64)> = pieces
        .iter()
        .filter(countable)
        .filter_map(|piece| Some((piece.1, pages(piece)?)))
        .collect();
    let tables = |range: Range| range.bytes().div_ceil(PAGE_TABLE_BYTES);
    // Ascending by page tables for each page.
    counted.sort_by_key(|&(range, pages)| (tables(range) << 16) / pages);
    let total: u64 = counted.iter().map(|&(_, pages)| pages).sum();
    let mut left = TABLES_MIN.max(total);
    let dense = counted.iter().take_while(|&&(range, _)| {
        let rest = left.checked_sub(tables(range));
        left = rest.unwrap_or(0);
        rest.is_some()
    });
    let dense = dense.count();
    counted.split_off(dense).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use nodeward_model::{MappingKind, MappingOrigin, Name, NodeId};

    use super::*;

    const GIB: u64 = 1 << 30;

    /// Returns mappings of the given GiB with the given number of pages, or of which nothing is
    /// known.
    fn memory(mappings: &[(u64, Option<u64>)]) -> (Vec<UnitPiece>, PagesByMapping) {
        let (mut pieces, mut counted, mut at) = (Vec::new(), PagesByMapping::new(), 0);
        for &(gib, pages) in mappings {
            let range = Range::new(at, at + gib * GIB);
            at = range.end + GIB;
            let mapping = Mapping {
                range,
                kind: MappingKind::Anonymous,
                shared: false,
                huge_page_bytes: None,
                path: Name::default(),
                segment: None,
                origin: MappingOrigin::default(),
            };
            pieces.push((Arc::new(mapping), range));
            counted.extend(pages.map(|pages| (range, [(NodeId(0), pages)].into())));
        }
        (pieces, counted)
    }

    /// The sizes of mappings that are looked at, and of those left to a walk, in GiB.
    fn divided(mappings: &[(u64, Option<u64>)], walked_pages_max: u64) -> (Vec<u64>, Vec<u64>) {
        let (pieces, counted) = memory(mappings);
        let memory = divide(pieces, &counted, walked_pages_max);
        assert!(memory.sparse.is_empty(), "{memory:?}");
        let gib = |range: &Range| range.bytes() / GIB;
        (
            memory.pieces.iter().map(|(_, range)| gib(range)).collect(),
            memory.walked.keys().map(gib).collect(),
        )
    }

    /// The sizes of mappings that are searched, with their pages.
    fn searched(mappings: &[(u64, Option<u64>)], walked_pages_max: u64) -> Vec<(u64, u64)> {
        let (pieces, counted) = memory(mappings);
        let memory = divide(pieces, &counted, walked_pages_max);
        assert!(memory.walked.is_empty(), "{memory:?}");
        memory.sparse.iter().map(|((_, range), pages)| (range.bytes() / GIB, *pages)).collect()
    }

    /// Goal: mappings without pages are left out, and nearly empty ones are searched where a walk
    /// will not do.
    #[test]
    fn mappings_without_pages_are_not_looked_at() {
        let mappings = [(1, Some(10)), (20_000, Some(0)), (5, None), (16_000, Some(7))];
        assert_eq!(searched(&mappings, 0), [(16_000, 7)]);
        assert_eq!(divided(&mappings, 7), (vec![1, 5], vec![16_000]));
    }

    /// Goal: a mapping that was split, or whose end moved, while it was counted has the pages of
    /// what is there now; what nothing is left of was not counted.
    #[test]
    fn mappings_that_change_are_counted() {
        let range = |start, end| Range::new(start * GIB, end * GIB);
        let of = |pages| NodeCounts::from([(NodeId(0), pages)]);
        let counted: PagesByMapping =
            [(range(1, 2), of(1)), (range(2, 5), of(10)), (range(6, 8), of(100))].into();
        for (mapping, pages) in [
            (range(1, 2), Some(1)),
            (range(1, 5), Some(11)),
            (range(3, 7), Some(110)),
            (range(5, 6), None),
            (range(0, 1), None),
            (range(8, 9), None),
        ] {
            assert_eq!(counted_in(&counted, mapping), pages.map(of), "{mapping:?}");
        }
    }

    /// Goal: as many page tables are looked at as there are pages, the densest mappings first, and
    /// 2 GiB in any case.
    #[test]
    fn looks_cost_no_more_than_the_pages() {
        // 512 page tables a GiB, 2000 pages: 512 * 3 = 1536 fit, 512 * 4 = 2048 do not.
        let mappings = [(3, Some(1000)), (1, Some(990)), (2, Some(10))];
        assert_eq!(divided(&mappings, 9999), (vec![1], vec![3, 2]));
        let mappings = [(2, Some(1000)), (1, Some(990)), (2, Some(10))];
        assert_eq!(divided(&mappings, 9999), (vec![2, 1], vec![2]));
        assert_eq!(divided(&[(2, Some(1))], 9999), (vec![2], vec![]));
        assert_eq!(divided(&[(3, Some(1))], 9999), (vec![], vec![3]));
    }

    /// Goal: what a walk would move for long is searched, however empty it is.
    #[test]
    fn a_long_walk_is_not_made() {
        assert_eq!(searched(&[(1000, Some(8))], 7), [(1000, 8)]);
        assert_eq!(divided(&[(1000, Some(7))], 7), (vec![], vec![1000]));
    }
}
