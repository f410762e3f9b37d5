//! The line of JSON at the end.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::move_totals::MoveTotals;
use crate::test_threads::TestEnd;
use crate::watchdog::Standstill;

/// The results of a run.
#[derive(Debug, Default, Serialize)]
pub struct TortureReport {
    pub seed: u64,
    pub kernel: String,
    pub backend: &'static str,
    /// Run time.
    pub ran_ms: u64,
    /// Number of steps by means.
    pub steps: BTreeMap<String, u64>,
    /// Number of migrations, lazy ones and exchanges.
    pub migrations: u64,
    pub moved_pages: u64,
    pub lazy_pages: u64,
    pub recycled_pages: u64,
    pub by_kernel_pages: u64,
    /// Pages that stayed, by reason.
    pub skipped_pages: BTreeMap<String, u64>,
    /// The longest time that pages were out of sight.
    pub longest_hold_ms: u64,
    /// The longest time without progress of a thread, which thread, and its last actions.
    pub longest_standstill_ms: u64,
    pub longest_standstill_of: String,
    pub longest_standstill_after: String,
    /// Means that are not available, with the reason.
    pub skipped_means: BTreeMap<&'static str, String>,
    /// 1 if memory did not hold what was written, else 0.
    pub lost: u64,
    /// The fault, if any.
    pub fault: Option<String>,
}

impl TortureReport {
    /// Adds the outcome of migrations.
    pub fn record_moves(&mut self, moves: &MoveTotals) {
        self.migrations = moves.calls;
        self.moved_pages = moves.account.moved;
        self.lazy_pages = moves.lazy_pages;
        self.recycled_pages = moves.recycled_pages;
        self.by_kernel_pages = moves.by_kernel_pages;
        let skipped = moves.account.skipped.iter().filter(|(_, pages)| **pages > 0);
        self.skipped_pages = skipped.map(|(why, pages)| (why.to_string(), *pages)).collect();
        self.longest_hold_ms = moves.longest_hold_ns / 1_000_000;
    }

    /// Adds the longest standstill.
    pub fn record_standstill(&mut self, longest: &Standstill) {
        self.longest_standstill_ms = longest.time.as_millis() as u64;
        self.longest_standstill_of.clone_from(&longest.thread);
        self.longest_standstill_after.clone_from(&longest.recent_actions);
    }

    /// Adds the ending.
    pub fn record_end(&mut self, ending: &TestEnd) {
        self.fault = match ending {
            TestEnd::Clean => None,
            TestEnd::Failed(who, fault) => Some(format!("{who}: {fault}")),
            TestEnd::Hung(status) => {
                Some(format!("{} stands still, after: {}", status.name, status.recent_actions()))
            }
        };
        self.lost = u64::from(matches!(ending, TestEnd::Failed(_, fault) if fault.is_loss()));
    }
}
