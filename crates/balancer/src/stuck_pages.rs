//! Pages that could not be moved, and the time for which they are left alone.

use std::collections::BTreeMap;

use nodeward_model::{NodeId, Nodemask};

/// Pages of a process or a segment that could not be moved.
#[derive(Default)]
pub struct StuckPages {
    /// Number of pages by node.
    pub by_node: BTreeMap<NodeId, u64>,
    /// Time since the last page was tried, in nanoseconds.
    pub ago_ns: u64,
}

impl StuckPages {
    /// Time after which pages that could not be moved are tried again, in nanoseconds: an attempt
    /// in vain costs time, and within an hour the pins on them may be gone.
    const LASTS_NS: u64 = 3_600_000_000_000;

    /// Notes the pages that a move off these nodes could not move, over all its rounds. `pages` are
    /// those of each node.
    pub fn note(&mut self, from: &Nodemask, mut stuck: u64, pages: Option<&BTreeMap<NodeId, u64>>) {
        if stuck > 0 {
            self.ago_ns = 0;
        }
        for node in from.iter() {
            let on = pages.and_then(|pages| pages.get(&node)).copied().unwrap_or(0).min(stuck);
            let known = self.by_node.entry(node).or_default();
            *known = on.max(*known);
            stuck -= on;
        }
    }

    /// Lets time pass, and forgets the pages after `LASTS_NS`.
    pub fn pass(&mut self, ns: u64) {
        self.ago_ns = self.ago_ns.saturating_add(ns);
        if self.ago_ns >= Self::LASTS_NS {
            self.by_node.clear();
        }
    }
}
