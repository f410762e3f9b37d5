//! The guard of pages that stay where they are.

use std::ops::Range;

use super::{Backing, Region};

/// Keeps a range of a region where it is until it is dropped. Made by [`Region::pin`].
#[derive(Debug)]
pub struct PinGuard<'a> {
    pub(super) region: &'a Region,
    pub(super) pages: Range<usize>,
}

impl Drop for PinGuard<'_> {
    fn drop(&mut self) {
        if let Backing::Managed(core) = &self.region.backing
            && self.region.pager.is_owner_process()
        {
            core.claims.unpin(&self.pages);
        }
    }
}
