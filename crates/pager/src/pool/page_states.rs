//! The state of each page of a pool, readable without a lock.
//!
//! The owner of a page sets its state. The only change that two threads may attempt at the same
//! time is freeing a run. Model-checked in `tests/pool_model.rs`.

use std::ops::Range;

use super::error::PoolError;
use crate::sync::{AtomicU8, Ordering};

/// The state of a page. The value of a run's first page includes its order; see
/// [`PageState::used`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageState(u8);

impl PageState {
    /// Not in memory, or in use by a migration.
    pub const ABSENT: Self = Self(0);
    /// In its zone.
    pub const FREE: Self = Self(1);
    /// In its zone, with the content that a migration left, not the pattern.
    pub const UNPOISONED: Self = Self(2);
    /// First of a run in a CPU's list.
    pub const LISTED: Self = Self(3);
    /// In a run, not the first of it.
    pub const TAIL: Self = Self(4);
    /// First of a run that belongs to a guard, which alone may free it.
    pub const GUARDED: Self = Self(5);
    const USED: u8 = 16;

    /// First of an allocated run of this order.
    pub const fn used(order: u32) -> Self {
        Self(Self::USED + order as u8)
    }

    fn used_order(self) -> Option<u32> {
        self.0.checked_sub(Self::USED).map(u32::from)
    }
}

/// The states of pages, by index.
pub struct PageStates(Box<[AtomicU8]>);

impl PageStates {
    /// States of `pages` pages that are not in memory.
    pub fn all_absent(pages: usize) -> Self {
        Self((0..pages).map(|_| AtomicU8::new(PageState::ABSENT.0)).collect())
    }

    /// Returns the number of pages.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Sets the state of a page. Only the owner of the page may call this.
    pub fn set(&self, page: usize, state: PageState) {
        self.0[page].store(state.0, Ordering::Release);
    }

    /// Sets the state of some pages.
    pub fn set_all(&self, pages: Range<usize>, state: PageState) {
        self.0[pages].iter().for_each(|entry| entry.store(state.0, Ordering::Release));
    }

    /// Returns whether a page is in this state.
    pub fn has_state(&self, page: usize, state: PageState) -> bool {
        self.0[page].load(Ordering::Acquire) == state.0
    }

    /// Turns an allocated run into a listed one, or returns why it cannot be freed. If two threads
    /// free the same run, one of them gets an error. The run's first page begins at `address`.
    pub fn begin_free(
        &self,
        page: usize,
        order: u32,
        address: impl Fn() -> u64,
    ) -> Result<(), PoolError> {
        let (used, listed) = (PageState::used(order).0, PageState::LISTED.0);
        let change =
            self.0[page].compare_exchange(used, listed, Ordering::AcqRel, Ordering::Acquire);
        change.map(drop).map_err(|found| {
            let address = address();
            match PageState(found) {
                PageState::TAIL => PoolError::NotAStart { address },
                PageState::GUARDED => PoolError::Guarded { address },
                found => match found.used_order() {
                    Some(allocated) => PoolError::WrongOrder { address, allocated, freed: order },
                    None => PoolError::DoubleFree { address },
                },
            }
        })
    }
}
