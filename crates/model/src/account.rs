//! The exact account of a move: where every selected page ended.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::SkipReason;

/// Counts of base pages. A page that was selected is in exactly one of the counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// Pages that lie on their destination now and did not before.
    pub moved: u64,
    /// Pages that lay on a destination node from the start.
    pub already_there: u64,
    /// Pages that stayed behind, by reason.
    pub skipped: BTreeMap<SkipReason, u64>,
}

impl Account {
    /// Adds pages that stayed behind.
    pub fn skip(&mut self, reason: SkipReason, pages: u64) {
        if pages > 0 {
            *self.skipped.entry(reason).or_default() += pages;
        }
    }

    /// Pages that stayed behind, for whatever reason.
    pub fn skipped_total(&self) -> u64 {
        self.skipped.values().sum()
    }

    /// Pages that were skipped for one reason.
    pub fn skipped_for(&self, reason: SkipReason) -> u64 {
        self.skipped.get(&reason).copied().unwrap_or(0)
    }

    /// Every page that was selected.
    pub fn selected(&self) -> u64 {
        self.moved + self.already_there + self.skipped_total()
    }

    /// Adds the counts of another account.
    pub fn add(&mut self, other: &Self) {
        self.moved += other.moved;
        self.already_there += other.already_there;
        for (&reason, &pages) in &other.skipped {
            self.skip(reason, pages);
        }
    }
}
