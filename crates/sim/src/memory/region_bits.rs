//! A bit for each page of a region.

use std::ops::Range;

/// Some pages of a region: those that a child shares, or that were not written since their
/// soft-dirty bits were cleared.
#[derive(Clone, Debug, Default)]
pub struct RegionBits(Vec<u64>);

impl RegionBits {
    /// Creates the bits of a region of `pages` pages; none is set.
    pub fn none_of(pages: u64) -> Self {
        Self(vec![0; pages.div_ceil(64) as usize])
    }

    /// Sets the bits of a range of pages.
    pub fn insert(&mut self, pages: Range<u64>) {
        pages.for_each(|page| self.0[page as usize / 64] |= 1 << (page % 64));
    }

    /// Returns whether the bit of a page is set.
    pub fn contains(&self, page: u64) -> bool {
        self.0.get(page as usize / 64).is_some_and(|word| word >> (page % 64) & 1 == 1)
    }

    /// Clears the bits of a range of pages.
    pub fn remove(&mut self, pages: Range<u64>) {
        for page in pages {
            if let Some(word) = self.0.get_mut(page as usize / 64) {
                *word &= !(1 << (page % 64));
            }
        }
    }

    /// Returns the pages of a range whose bits are set.
    pub fn set_in(&self, pages: Range<u64>) -> impl Iterator<Item = u64> + '_ {
        let mut page = pages.start;
        std::iter::from_fn(move || {
            while page < pages.end {
                let word = self.0.get(page as usize / 64).copied().unwrap_or(0) >> (page % 64);
                let found = page + u64::from(word.trailing_zeros());
                if word != 0 && found < pages.end {
                    page = found + 1;
                    return Some(found);
                }
                page = (page / 64 + 1) * 64;
            }
            None
        })
    }
}
