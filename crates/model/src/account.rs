//! The exact account of a move: the outcome of every selected page.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::SkipReason;

/// Counts of base pages. A page that was selected is in exactly one of the counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// Pages that the move brought to their destination.
    pub moved: u64,
    /// Pages that were on a destination node from the start.
    pub already_there: u64,
    /// Pages that were not moved, by reason.
    pub skipped: BTreeMap<SkipReason, u64>,
}

impl Account {
    /// Adds pages that were not moved.
    pub fn skip(&mut self, reason: SkipReason, pages: u64) {
        if pages > 0 {
            *self.skipped.entry(reason).or_default() += pages;
        }
    }

    /// Gives pages that were not moved for one reason another reason.
    pub fn rename(&mut self, reason: SkipReason, to: SkipReason) {
        if let Some(pages) = self.skipped.remove(&reason) {
            self.skip(to, pages);
        }
    }

    /// Returns the number of pages that were not moved, for any reason.
    pub fn skipped_total(&self) -> u64 {
        self.skipped.values().sum()
    }

    /// Returns the number of pages that were skipped for one reason.
    pub fn skipped_for(&self, reason: SkipReason) -> u64 {
        self.skipped.get(&reason).copied().unwrap_or(0)
    }

    /// Returns the number of selected pages.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: pages with a new reason join those that had it, and no page is lost.
    #[test]
    fn reasons_are_renamed() {
        let mut account = Account::default();
        account.skip(SkipReason::NotPresent, 2);
        account.rename(SkipReason::Unmovable, SkipReason::NotPresent);
        assert_eq!(account.skipped, [(SkipReason::NotPresent, 2)].into());
        account.skip(SkipReason::Unmovable, 3);
        account.rename(SkipReason::Unmovable, SkipReason::NotPresent);
        assert_eq!(account.skipped, [(SkipReason::NotPresent, 5)].into());
    }
}
