//! The guard of pages that a program has pinned: they stay where they are until it is dropped.

use std::fmt;
use std::ops::Range;

use super::pager_shared::PagerShared;
use crate::region::{RegionPin, RegionShared};

/// Keeps a range of a region where it is. Dropping the guard lets the range move again. Made by
/// [`crate::Region::pin`].
pub struct PinGuard<'a> {
    pub(super) pager: &'a PagerShared,
    /// `None` if only the kernel moves the region's pages: nothing is pinned then.
    pub(super) pin: Option<(&'a RegionShared, RegionPin)>,
    /// Pages of the region.
    pub(super) pages: Range<usize>,
}

impl fmt::Debug for PinGuard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PinGuard").field("pages", &self.pages).finish_non_exhaustive()
    }
}

impl Drop for PinGuard<'_> {
    fn drop(&mut self) {
        if let Some((region, pin)) = &self.pin
            && self.pager.is_owner_process()
        {
            region.claims.unpin(pin, &self.pages);
        }
    }
}
