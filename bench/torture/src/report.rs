//! The line of JSON at the end.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::crew::Ending;
use crate::tally::Moves;
use crate::watch::Standstill;

/// The results of a run.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    pub seed: u64,
    pub kernel: String,
    pub road: &'static str,
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

impl Report {
    /// Adds the outcome of migrations.
    pub fn moves(&mut self, moves: &Moves) {
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
    pub fn stood(&mut self, longest: &Standstill) {
        self.longest_standstill_ms = longest.time.as_millis() as u64;
        self.longest_standstill_of.clone_from(&longest.who);
        self.longest_standstill_after.clone_from(&longest.story);
    }

    /// Adds the ending.
    pub fn ended(&mut self, ending: &Ending) {
        self.fault = match ending {
            Ending::Clean => None,
            Ending::Fault(who, fault) => Some(format!("{who}: {fault}")),
            Ending::Stands(post) => {
                Some(format!("{} stands still, after: {}", post.name, post.story()))
            }
        };
        self.lost = u64::from(matches!(ending, Ending::Fault(_, fault) if fault.is_loss()));
    }
}
