//! Folios: base pages that move together.

use std::ops::Range;

/// Base pages that move as a whole or not at all: one base page, or a larger folio.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folio {
    /// The index of its region.
    pub region: usize,
    /// Its pages in the region.
    pub pages: Range<u64>,
}

impl Folio {
    /// Returns the number of its base pages.
    pub fn len(&self) -> u64 {
        self.pages.end - self.pages.start
    }
}
