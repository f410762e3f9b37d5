//! What each page of a pool is, for whoever asks, without a lock.
//!
//! Who has a page says what it is; the one change that two threads may want at the same time is
//! that of freeing a run. Model-checked in `tests/pool_model.rs`.

use std::ops::Range;

use super::error::PoolError;
use crate::sync::{AtomicU8, Ordering};

/// What a page is. The value of a run's first page tells its order; see [`State::used`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State(u8);

impl State {
    /// Not in memory, or with a migration.
    pub const AWAY: Self = Self(0);
    /// In its zone.
    pub const FREE: Self = Self(1);
    /// In its zone, and what it holds is whatever a migration left.
    pub const UNMARKED: Self = Self(2);
    /// First of a run that is in a CPU's list.
    pub const LISTED: Self = Self(3);
    /// In a run, not the first of it.
    pub const INNER: Self = Self(4);
    /// First of a run that has a guard, which alone may free it.
    pub const GUARDED: Self = Self(5);
    const USED: u8 = 16;

    /// First of a run of this order that somebody has.
    pub const fn used(order: u32) -> Self {
        Self(Self::USED + order as u8)
    }

    fn used_order(self) -> Option<u32> {
        self.0.checked_sub(Self::USED).map(u32::from)
    }
}

/// The states of pages, by their index.
pub struct States(Box<[AtomicU8]>);

impl States {
    /// Of so many pages that are not in memory.
    pub fn away(pages: usize) -> Self {
        Self((0..pages).map(|_| AtomicU8::new(State::AWAY.0)).collect())
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Enters what a page is now. Who has the page says so, nobody else.
    pub fn set(&self, page: usize, state: State) {
        self.0[page].store(state.0, Ordering::Release);
    }

    /// Enters the same for some pages.
    pub fn set_all(&self, pages: Range<usize>, state: State) {
        self.0[pages].iter().for_each(|entry| entry.store(state.0, Ordering::Release));
    }

    /// Whether a page is in this state.
    pub fn is(&self, page: usize, state: State) -> bool {
        self.0[page].load(Ordering::Acquire) == state.0
    }

    /// Makes a run that somebody has a run in a list, or finds out why it cannot be freed. Of two
    /// threads that free the same run one finds it freed. Its first page begins at `address`.
    pub fn begin_free(
        &self,
        page: usize,
        order: u32,
        address: impl Fn() -> u64,
    ) -> Result<(), PoolError> {
        let (used, listed) = (State::used(order).0, State::LISTED.0);
        let change =
            self.0[page].compare_exchange(used, listed, Ordering::AcqRel, Ordering::Acquire);
        change.map(drop).map_err(|found| {
            let address = address();
            match State(found) {
                State::INNER => PoolError::NotAStart { address },
                State::GUARDED => PoolError::Guarded { address },
                found => match found.used_order() {
                    Some(allocated) => PoolError::WrongOrder { address, allocated, freed: order },
                    None => PoolError::DoubleFree { address },
                },
            }
        })
    }
}
