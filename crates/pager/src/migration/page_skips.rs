//! Why single pages of a chunk stayed where they were.

use nodeward_model::SkipReason;

use crate::page_bits::{PAGES_MAX, PageBits};

/// A reason for each page of a chunk that stayed. A page that a task was not about has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageSkips([Option<SkipReason>; PAGES_MAX]);

impl Default for PageSkips {
    fn default() -> Self {
        Self([None; PAGES_MAX])
    }
}

impl PageSkips {
    /// Forgets all reasons.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Notes that a page stayed, or, without a reason, that it did not.
    pub fn set(&mut self, page: usize, why: Option<SkipReason>) {
        self.0[page] = why;
    }

    /// Notes why some pages stayed.
    pub fn skip(&mut self, pages: &PageBits, why: SkipReason) {
        pages.iter().for_each(|page| self.set(page, Some(why)));
    }

    /// Returns the reasons of those of some pages that stayed.
    pub fn of(&self, pages: std::ops::Range<usize>) -> impl Iterator<Item = SkipReason> {
        self.0[pages].iter().flatten().copied()
    }
}
