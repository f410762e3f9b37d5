//! A set of pages of one chunk.

use std::ops::Range;

/// Maximum number of base pages of a chunk of 2 MiB (fewer where base pages are larger).
pub const PAGES_MAX: usize = 512;

/// Order of a chunk of `PAGES_MAX` pages.
pub const ORDER_MAX: u32 = PAGES_MAX.ilog2();

/// Order of the number of pages that one word of the set covers.
const WORD_ORDER: u32 = u64::BITS.ilog2();

/// A set of pages of one chunk, by their index in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageBits([u64; PAGES_MAX / 64]);

impl PageBits {
    /// The pages of a range.
    pub fn of(range: Range<usize>) -> Self {
        let mut bits = Self::default();
        bits.insert_all(range);
        bits
    }

    /// Adds the pages of a range.
    pub fn insert_all(&mut self, range: Range<usize>) {
        for (word, mask) in masks(&range) {
            self.0[word] |= mask;
        }
    }

    /// Removes the pages of a range.
    pub fn remove_all(&mut self, range: Range<usize>) {
        for (word, mask) in masks(&range) {
            self.0[word] &= !mask;
        }
    }

    /// Adds a page.
    pub fn insert(&mut self, page: usize) {
        self.0[page / 64] |= 1 << (page % 64);
    }

    /// Removes a page.
    pub fn remove(&mut self, page: usize) {
        self.0[page / 64] &= !(1 << (page % 64));
    }

    /// Returns whether a page is in the set.
    pub fn contains(&self, page: usize) -> bool {
        self.0[page / 64] & 1 << (page % 64) != 0
    }

    /// Returns the number of pages.
    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Returns the smallest range that has all pages; `None` if there are none.
    pub fn hull(&self) -> Option<Range<usize>> {
        let first = self.0.iter().position(|&word| word != 0)?;
        let last = self.0.iter().rposition(|&word| word != 0)?;
        let start = first * 64 + self.0[first].trailing_zeros() as usize;
        Some(start..last * 64 + 64 - self.0[last].leading_zeros() as usize)
    }

    /// Returns whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.iter().fold(0, |all, word| all | word) == 0
    }

    /// Returns the pages that are in both sets.
    pub fn and(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] & other.0[i]))
    }

    /// Returns the pages that are not in `other`.
    pub fn without(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] & !other.0[i]))
    }

    /// Returns the first pages of all runs of 2^`order` pages that begin at a multiple of their
    /// length.
    pub fn blocks(&self, order: u32) -> Self {
        if order >= WORD_ORDER {
            let words = 1 << (order - WORD_ORDER);
            let whole = |i: usize| {
                i.is_multiple_of(words) && self.0[i..i + words].iter().all(|&word| word == !0)
            };
            return Self(std::array::from_fn(|i| u64::from(whole(i))));
        }
        // After each round a set bit says that twice as many bits from it on were set.
        let runs = |word: u64| (0..order).fold(word, |bits, round| bits & bits >> (1 << round));
        // One bit in 2^order: 0b...0001_0001 for order 2.
        let starts = !0 / (!0 >> (64 - (1 << order)));
        Self(self.0.map(|word| runs(word) & starts))
    }

    /// Returns first page and order of the smallest block that holds 2^`order` pages: the block
    /// whose loss costs least, because its buddy is not whole.
    pub fn best_block(&self, order: u32) -> Option<(usize, u32)> {
        let mut blocks = self.blocks(order);
        for order in order..=ORDER_MAX {
            let larger = if order < ORDER_MAX { self.blocks(order + 1) } else { Self::default() };
            let lonely = blocks.iter().find(|start| !larger.contains(start & !(1 << order)));
            if let Some(start) = lonely {
                return Some((start, order));
            }
            blocks = larger;
        }
        None
    }

    /// Returns the largest order of a block in the set.
    pub fn largest_order(&self) -> Option<u32> {
        let nearly_full = self.0.contains(&!0);
        let mut orders = if nearly_full { WORD_ORDER..=ORDER_MAX } else { 0..=WORD_ORDER - 1 };
        orders.rfind(|&order| !self.blocks(order).is_empty())
    }

    /// Returns the contiguous runs of pages in ascending order.
    pub fn runs(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        let mut next = 0;
        std::iter::from_fn(move || {
            let start = (next..PAGES_MAX).find(|&page| self.contains(page))?;
            let end = (start..PAGES_MAX).find(|&page| !self.contains(page)).unwrap_or(PAGES_MAX);
            next = end;
            Some(start..end)
        })
    }

    /// Returns the pages in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        let word_pages = |(index, &word): (usize, &u64)| {
            let mut rest = word;
            std::iter::from_fn(move || {
                let bit = rest.trailing_zeros() as usize;
                rest &= rest.checked_sub(1)?;
                Some(index * 64 + bit)
            })
        };
        self.0.iter().enumerate().flat_map(word_pages)
    }
}

/// Returns the words that a range touches, each with its bits of the range.
fn masks(range: &Range<usize>) -> impl Iterator<Item = (usize, u64)> + use<> {
    let (start, end) = (range.start, range.end.max(range.start));
    (start / 64..end.div_ceil(64)).map(move |word| {
        let first = start.max(word * 64) - word * 64;
        let bits = end.min(word * 64 + 64) - word * 64 - first;
        (word, (!0_u64).unbounded_shr(64 - bits as u32) << first)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Goal: the set behaves as a set of numbers does.
        #[test]
        fn it_is_a_set(a in proptest::collection::btree_set(0..PAGES_MAX, 0..60),
                       b in proptest::collection::btree_set(0..PAGES_MAX, 0..60)) {
            let bits = |pages: &std::collections::BTreeSet<usize>| {
                let mut bits = PageBits::default();
                pages.iter().for_each(|&page| bits.insert(page));
                bits
            };
            let (one, other) = (bits(&a), bits(&b));
            prop_assert_eq!(one.len(), a.len());
            prop_assert!(one.iter().eq(a.iter().copied()));
            prop_assert!(one.and(&other).iter().eq(a.intersection(&b).copied()));
            prop_assert!(one.without(&other).iter().eq(a.difference(&b).copied()));
            prop_assert!(one.runs().flatten().eq(one.iter()));
            prop_assert!((0..PAGES_MAX).all(|page| one.contains(page) == a.contains(&page)));
        }
    }

    proptest! {
        /// Goal: `blocks` finds the same blocks as a loop over all starts, and the best block is
        /// one of the smallest that are in no larger one.
        #[test]
        fn blocks_are_runs_of_their_length(
            holes in proptest::collection::btree_set(0..PAGES_MAX, 0..40), order in 0..=ORDER_MAX,
        ) {
            let mut bits = PageBits::of(0..PAGES_MAX);
            holes.iter().for_each(|&page| bits.remove(page));
            let is_block = |start: usize, order: u32| {
                start.is_multiple_of(1 << order)
                    && (start..start + (1 << order)).all(|page| bits.contains(page))
            };
            let starts = |order: u32| {
                let all = (0..PAGES_MAX).step_by(1 << order);
                all.filter(move |&start| is_block(start, order))
            };
            prop_assert!(bits.blocks(order).iter().eq(starts(order)));
            let largest = (0..=ORDER_MAX).rev().find(|&order| starts(order).next().is_some());
            prop_assert_eq!(bits.largest_order(), largest);
            let in_larger = |start: usize, order: u32| {
                order < ORDER_MAX && is_block(start & !(1 << order), order + 1)
            };
            let best = (order..=ORDER_MAX)
                .find_map(|order| Some((starts(order).find(|&s| !in_larger(s, order))?, order)));
            prop_assert_eq!(bits.best_block(order), best);
        }
    }

    #[test]
    fn ranges_are_whole() {
        assert_eq!(PageBits::of(0..PAGES_MAX).len(), 512);
        assert!(PageBits::of(3..3).is_empty());
    }
}
