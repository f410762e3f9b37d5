//! What a round has come to so far. Its stages fill it, and its report is made from it.

use std::collections::{BTreeMap, BTreeSet};

use nodeward_policy::placement::EntityId;

use super::report::{Done, Notice};

/// What a round has come to so far.
#[derive(Default)]
pub struct RoundState {
    pub notices: Vec<Notice>,
    pub sampled: u64,
    pub sample_later: u64,
    pub done: BTreeMap<EntityId, Done>,
    /// Whose memory came to the end of its way.
    pub ended: BTreeSet<EntityId>,
}

impl RoundState {
    pub fn moved_pages(&self) -> u64 {
        self.done.values().map(|done| done.pages_moved).sum()
    }

    /// Threads that are where they were sent.
    pub fn nudged(&self) -> u64 {
        self.done.values().map(|done| u64::from(done.threads_placed)).sum()
    }
}
