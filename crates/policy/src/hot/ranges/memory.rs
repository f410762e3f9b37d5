//! The memory in which ranges are chosen, and where it is cut.

use nodeward_model::Range;

/// A mapping, or the part of one that may be moved. Ranges never leave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappedRange {
    /// The addresses of the range, page-aligned.
    pub range: Range,
    /// The parts that may hold pages, page-aligned and in ascending order. Holes between them cost
    /// nothing.
    pub populated: Vec<Range>,
}

impl MappedRange {
    /// Returns the number of pages that may be in a range of it.
    pub(super) fn pages_in(&self, range: Range, page_bytes: u64) -> u64 {
        let first = self.populated.partition_point(|part| part.end <= range.start);
        let parts = self.populated[first..].iter().take_while(|part| part.start < range.end);
        let bytes = parts.filter_map(|part| part.intersection(range)).map(Range::bytes);
        bytes.sum::<u64>() / page_bytes
    }

    /// Returns the part at the start of a range of it that may hold so many pages.
    pub(super) fn first_pages(&self, range: Range, pages: u64, page_bytes: u64) -> Range {
        let mut left = pages.saturating_mul(page_bytes);
        for part in self.populated.iter().filter_map(|part| part.intersection(range)) {
            match left.checked_sub(part.bytes()) {
                Some(rest) => left = rest,
                None => return Range::new(range.start, part.start + left),
            }
        }
        range
    }
}

/// Returns the address with the most trailing zeros from `first` to `last`. That is a multiple of
/// the page size if any of them is.
pub(super) fn roundest(first: u64, last: u64) -> u64 {
    // What `first - 1` and `last` have in common is in all addresses between them. The next bit is
    // set in the roundest one, and no other is.
    match first.checked_sub(1) {
        Some(before) if before < last => {
            let kept = (before ^ last).ilog2();
            last >> kept << kept
        }
        _ => first,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: of all addresses in a range the roundest one is found, the first and the last
    /// included.
    #[test]
    fn the_roundest_address_is_found() {
        assert_eq!([roundest(5, 5), roundest(5, 9), roundest(9, 15)], [5, 8, 12]);
        assert_eq!([roundest(8, 15), roundest(9, 16), roundest(0, 7)], [8, 16, 0]);
        assert_eq!(roundest(1, u64::MAX), 1 << 63);
        for (first, last) in
            (1..64_u64).flat_map(|first| (first..64).map(move |last| (first, last)))
        {
            let found = roundest(first, last);
            assert!((first..=last).contains(&found));
            assert!((first..=last).all(|it| it.trailing_zeros() <= found.trailing_zeros()));
        }
    }
}
