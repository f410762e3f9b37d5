//! A set of pages of one chunk.

use std::ops::Range;

/// Base pages of a chunk of 2 MiB, at most (there are fewer where base pages are larger).
pub const PAGES_MAX: usize = 512;

/// A set of pages of one chunk, by their index in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageBits([u64; PAGES_MAX / 64]);

impl PageBits {
    /// The pages of a range.
    pub fn of(range: Range<usize>) -> Self {
        let mut bits = Self::default();
        range.for_each(|page| bits.insert(page));
        bits
    }

    /// Adds a page.
    pub fn insert(&mut self, page: usize) {
        self.0[page / 64] |= 1 << (page % 64);
    }

    /// Takes a page away.
    pub fn remove(&mut self, page: usize) {
        self.0[page / 64] &= !(1 << (page % 64));
    }

    /// Whether a page is in it.
    pub fn contains(&self, page: usize) -> bool {
        self.0[page / 64] & 1 << (page % 64) != 0
    }

    /// How many pages.
    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Those that are in the other, too.
    pub fn and(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] & other.0[i]))
    }

    /// Those that are not in the other.
    pub fn without(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] & !other.0[i]))
    }

    /// Unbroken runs of pages in ascending order.
    pub fn runs(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        let mut next = 0;
        std::iter::from_fn(move || {
            let start = (next..PAGES_MAX).find(|&page| self.contains(page))?;
            let end = (start..PAGES_MAX).find(|&page| !self.contains(page)).unwrap_or(PAGES_MAX);
            next = end;
            Some(start..end)
        })
    }

    /// The pages in ascending order.
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

    #[test]
    fn ranges_are_whole() {
        assert_eq!(PageBits::of(0..PAGES_MAX).len(), 512);
        assert!(PageBits::of(3..3).is_empty());
    }
}
