//! The counts that all threads share.

use std::sync::Mutex;

use nodeward::{Account, MigrationReport};

/// The outcome of migrations.
#[derive(Debug, Default)]
pub struct SharedMoveTotals(Mutex<MoveTotals>);

#[derive(Clone, Debug, Default)]
pub struct MoveTotals {
    pub account: Account,
    pub calls: u64,
    pub lazy_pages: u64,
    pub recycled_pages: u64,
    pub by_kernel_pages: u64,
    pub longest_hold_ns: u64,
}

impl SharedMoveTotals {
    /// Adds the outcome of one migration.
    pub fn add(&self, report: &MigrationReport) {
        let mut moves = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        moves.calls += 1;
        moves.account.add(&report.account);
        moves.lazy_pages += report.lazy_pages;
        moves.recycled_pages += report.recycled_pages;
        moves.by_kernel_pages += report.by_kernel_pages;
        moves.longest_hold_ns = moves.longest_hold_ns.max(report.longest_hold_ns);
    }

    /// Returns the counts so far.
    pub fn snapshot(&self) -> MoveTotals {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }
}
