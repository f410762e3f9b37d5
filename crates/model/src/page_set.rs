//! A set of pages of one process, by address.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use crate::Range;

/// Pages that one entry of the set covers: the page table of base pages of 4 KiB.
const WINDOW_PAGES: u64 = 512;

/// A bit for each page of a window.
type WindowBits = [u64; (WINDOW_PAGES / 64) as usize];

/// A set of base pages by address, one bit each, in windows of 512 pages. A set takes at most 0.004
/// % of the memory that it names when the pages are contiguous, and about 100 bytes per page when
/// they are scattered. Adding a page again takes no memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageSet {
    page_bytes: u64,
    windows: BTreeMap<u64, WindowBits>,
    pages: u64,
}

impl PageSet {
    /// Returns an empty set of pages of this size (a power of two).
    pub fn new(page_bytes: u64) -> Self {
        Self { page_bytes, windows: BTreeMap::new(), pages: 0 }
    }

    /// Adds the page that holds an address. Returns whether it was new.
    pub fn insert(&mut self, address: u64) -> bool {
        let (window, word, bit) = self.position(address);
        let word = &mut self.windows.entry(window).or_default()[word];
        let is_new = *word & bit == 0;
        *word |= bit;
        self.pages += u64::from(is_new);
        is_new
    }

    /// Adds every page that a range overlaps. Takes time by window, not by page.
    pub fn insert_range(&mut self, range: Range) {
        if range.is_empty() {
            return;
        }
        let (first, last) = self.pages_of(range);
        for window in first / WINDOW_PAGES..=last / WINDOW_PAGES {
            let words = self.windows.entry(window).or_default();
            let base = window * WINDOW_PAGES;
            for index in words_within(base, first, last) {
                let wanted = bits_within(base + index as u64 * 64, first, last);
                self.pages += u64::from((wanted & !words[index]).count_ones());
                words[index] |= wanted;
            }
        }
    }

    /// Removes every page that a range overlaps. Takes time by window, not by page.
    pub fn remove_range(&mut self, range: Range) {
        if range.is_empty() {
            return;
        }
        let (first, last) = self.pages_of(range);
        let windows = first / WINDOW_PAGES..=last / WINDOW_PAGES;
        for (window, words) in self.windows.range_mut(windows) {
            for (index, word) in words.iter_mut().enumerate() {
                let base = window * WINDOW_PAGES + index as u64 * 64;
                let unwanted = *word & bits_within(base, first, last);
                self.pages -= u64::from(unwanted.count_ones());
                *word &= !unwanted;
            }
        }
    }

    /// Returns true if the page that holds an address is in the set.
    pub fn contains(&self, address: u64) -> bool {
        let (window, word, bit) = self.position(address);
        self.windows.get(&window).is_some_and(|words| words[word] & bit != 0)
    }

    /// Returns the number of pages of the set in a range.
    pub fn count_in(&self, range: Range) -> u64 {
        self.count_windows(range, |_, words| *words)
    }

    /// Returns the number of pages in a range that are in both sets; both have pages of the same
    /// size.
    pub fn count_common(&self, other: &Self, range: Range) -> u64 {
        debug_assert_eq!(self.page_bytes, other.page_bytes);
        self.count_windows(range, |window, words| match other.windows.get(&window) {
            Some(others) => std::array::from_fn(|word| words[word] & others[word]),
            None => WindowBits::default(),
        })
    }

    /// Counts the bits that `pick` returns for each window that a range overlaps, as far as their
    /// pages are in the range.
    fn count_windows(&self, range: Range, pick: impl Fn(u64, &WindowBits) -> WindowBits) -> u64 {
        if range.is_empty() {
            return 0;
        }
        let (first, last) = self.pages_of(range);
        let windows = self.windows.range(first / WINDOW_PAGES..=last / WINDOW_PAGES);
        let picked = windows.map(|(&window, words)| (window * WINDOW_PAGES, pick(window, words)));
        picked.map(|(base, words)| count(&words, base, first, last)).sum()
    }

    /// Returns the parts of a page-aligned range whose pages are not in the set, in ascending
    /// order.
    pub fn ranges_without(&self, range: Range) -> Vec<Range> {
        let mut parts = Vec::new();
        let mut start = range.start;
        if range.is_empty() {
            return parts;
        }
        let (first, last) = self.pages_of(range);
        for (&window, words) in self.windows.range(first / WINDOW_PAGES..=last / WINDOW_PAGES) {
            let pages = (0..WINDOW_PAGES)
                .filter(|page| words[(page / 64) as usize] >> (page % 64) & 1 == 1);
            for page in pages.map(|page| window * WINDOW_PAGES + page) {
                let gap = Range::new(start, page.saturating_mul(self.page_bytes));
                parts.extend(gap.intersection(range));
                start = start.max((page + 1).saturating_mul(self.page_bytes));
            }
        }
        parts.extend(Range::new(start, range.end).intersection(range));
        parts
    }

    /// Returns the pages of the set in these ranges.
    pub fn within(&self, ranges: &[Range]) -> Self {
        let mut within = Self::new(self.page_bytes);
        for range in ranges.iter().filter(|range| !range.is_empty()) {
            let (first, last) = self.pages_of(*range);
            for (&window, words) in self.windows.range(first / WINDOW_PAGES..=last / WINDOW_PAGES) {
                let mine = within.windows.entry(window).or_default();
                for (index, word) in words.iter().enumerate() {
                    let base = window * WINDOW_PAGES + index as u64 * 64;
                    let wanted = *word & bits_within(base, first, last);
                    within.pages += u64::from((wanted & !mine[index]).count_ones());
                    mine[index] |= wanted;
                }
            }
        }
        within
    }

    /// Returns the number of pages in the set.
    pub fn len(&self) -> u64 {
        self.pages
    }

    /// Returns true if no page is in the set.
    pub fn is_empty(&self) -> bool {
        self.pages == 0
    }

    /// Returns the parts of a range that hold every page of the set within it, in ascending order.
    /// Parts are whole windows where the range allows; adjacent ones are joined.
    pub fn covering_ranges(&self, range: Range) -> Vec<Range> {
        let bytes = self.window_bytes();
        let mut parts: Vec<Range> = Vec::new();
        if range.is_empty() {
            return parts;
        }
        for &window in
            self.windows.range(range.start / bytes..=(range.end - 1) / bytes).map(|w| w.0)
        {
            let start = window * bytes;
            let whole = Range::new(start, start.saturating_add(bytes));
            match (parts.last_mut(), range.intersection(whole)) {
                (Some(last), Some(part)) if last.end == part.start => last.end = part.end,
                (_, part) => parts.extend(part),
            }
        }
        parts
    }

    /// Iterates over the addresses of the pages in the set, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        self.windows.iter().flat_map(|(&window, words)| {
            let start = window * self.window_bytes();
            let page_bytes = self.page_bytes;
            (0..WINDOW_PAGES)
                .filter(|page| words[(page / 64) as usize] >> (page % 64) & 1 == 1)
                .map(move |page| start + page * page_bytes)
        })
    }

    /// Returns the first and the last page that a range overlaps.
    fn pages_of(&self, range: Range) -> (u64, u64) {
        (range.start / self.page_bytes, (range.end - 1) / self.page_bytes)
    }

    fn window_bytes(&self) -> u64 {
        WINDOW_PAGES * self.page_bytes
    }

    /// Returns the window of an address, the index of its word, and its bit in that word.
    fn position(&self, address: u64) -> (u64, usize, u64) {
        let page = address / self.page_bytes;
        let bit = page % WINDOW_PAGES;
        (page / WINDOW_PAGES, (bit / 64) as usize, 1 << (bit % 64))
    }
}

/// Counts the bits of a window that stand for pages from `first` to `last`. Its first bit is page
/// `base`.
fn count(words: &WindowBits, base: u64, first: u64, last: u64) -> u64 {
    let in_word = |(index, &word): (usize, &u64)| {
        u64::from((word & bits_within(base + index as u64 * 64, first, last)).count_ones())
    };
    words.iter().enumerate().map(in_word).sum()
}

/// Returns the words of a window that have bits for pages from `first` to `last`. Its first bit is
/// page `base`, and some of its bits are for such pages.
fn words_within(base: u64, first: u64, last: u64) -> RangeInclusive<usize> {
    let word = |page: u64| ((page.clamp(base, base + WINDOW_PAGES - 1) - base) / 64) as usize;
    word(first)..=word(last)
}

/// Returns the bits of a word that stand for pages from `first` to `last`. Its first bit is page
/// `base`.
fn bits_within(base: u64, first: u64, last: u64) -> u64 {
    let (below, above) = (first.saturating_sub(base), (base + 63).saturating_sub(last));
    match below + above {
        0..64 => u64::MAX >> below << below << above >> above,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const PAGE: u64 = 4096;

    #[test]
    fn any_address_of_a_page_names_it_once() {
        let mut set = PageSet::new(PAGE);
        assert!(set.insert(5 * PAGE + 17));
        assert!(!set.insert(5 * PAGE));
        assert!(set.contains(5 * PAGE + 4095) && !set.contains(6 * PAGE));
        assert_eq!(set.len(), 1);
        set.insert_range(Range::new(4 * PAGE + 1, 7 * PAGE));
        assert_eq!(set.iter().collect::<Vec<_>>(), [4 * PAGE, 5 * PAGE, 6 * PAGE]);
    }

    #[test]
    fn the_last_address_is_an_address() {
        let mut set = PageSet::new(PAGE);
        set.insert_range(Range::new(u64::MAX - 1, u64::MAX));
        assert!(set.contains(u64::MAX));
        assert_eq!(set.covering_ranges(Range::new(0, u64::MAX)).len(), 1);
    }

    proptest! {
        /// Goal: a range is added as its pages are, and what is left out of it are the others.
        #[test]
        fn ranges_are_their_pages(
            pages in proptest::collection::vec(0..2048_u64, 0..40),
            ranges in proptest::collection::vec((0..2048_u64, 0..700_u64), 0..4),
            within in (0..2048_u64, 0..2048_u64),
        ) {
            let (mut set, mut by_page) = (PageSet::new(PAGE), PageSet::new(PAGE));
            for &page in &pages {
                set.insert(page * PAGE);
                by_page.insert(page * PAGE);
            }
            for (start, length) in ranges {
                set.insert_range(Range::new(start * PAGE, (start + length) * PAGE));
                (start..start + length).for_each(|page| _ = by_page.insert(page * PAGE));
            }
            prop_assert_eq!(set.len(), by_page.len());
            prop_assert!(set.iter().eq(by_page.iter()));
            let within = Range::new(within.0 * PAGE, within.1 * PAGE);
            let mut removed = set.clone();
            removed.remove_range(within);
            let is_left = |page: &u64| !(within.start..within.end).contains(page);
            prop_assert!(removed.iter().eq(set.iter().filter(is_left)));
            prop_assert_eq!(removed.len(), removed.iter().count() as u64);
            let kept = set.within(&[within, Range::new(within.start, within.start + PAGE)]);
            let is_kept = |page: &u64| !is_left(page) || *page == within.start;
            prop_assert!(kept.iter().eq(set.iter().filter(is_kept)));
            prop_assert_eq!(kept.len(), kept.iter().count() as u64);
            let without = set.ranges_without(within);
            prop_assert!(without.windows(2).all(|pair| pair[0].end < pair[1].start));
            let pages = |part: &Range| (part.start..part.end).step_by(PAGE as usize);
            let others = pages(&within).filter(|&page| !by_page.contains(page));
            prop_assert!(without.iter().flat_map(pages).eq(others));
        }

        /// Goal: it behaves as a set of numbers, and its parts miss none of its pages.
        #[test]
        fn it_agrees_with_a_set_of_numbers(
            pages in proptest::collection::vec(0..4096_u64, 0..64),
            from in 0..4096_u64,
            to in 0..4096_u64,
        ) {
            let mut set = PageSet::new(PAGE);
            pages.iter().for_each(|page| { set.insert(page * PAGE + 1); });
            let expected: BTreeSet<u64> = pages.iter().map(|page| page * PAGE).collect();
            prop_assert_eq!(set.len(), expected.len() as u64);
            let listed: Vec<u64> = set.iter().collect();
            prop_assert_eq!(listed, expected.iter().copied().collect::<Vec<_>>());
            let range = Range::new(from * PAGE, to * PAGE);
            let parts = set.covering_ranges(range);
            for address in expected.range(range.start..range.end.max(range.start)) {
                let holds = |part: &Range| part.start <= *address && *address < part.end;
                prop_assert_eq!(parts.iter().filter(|part| holds(part)).count(), 1);
            }
            let within = expected.range(range.start..range.end).count() as u64;
            prop_assert_eq!(set.count_in(range), within);
            let mut evens = PageSet::new(PAGE);
            (0..4096).step_by(2).for_each(|page| { evens.insert(page * PAGE); });
            let is_even = |address: &&u64| (*address / PAGE).is_multiple_of(2);
            let even = expected.range(range.start..range.end).filter(is_even).count();
            prop_assert_eq!(set.count_common(&evens, range), even as u64);
            prop_assert!(parts.iter().all(|&part| range.intersection(part) == Some(part)));
            prop_assert!(parts.windows(2).all(|pair| pair[0].end < pair[1].start));
        }
    }
}
