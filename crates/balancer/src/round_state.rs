//! The results of a round so far. Its stages fill them in, and the report is made from them.

use std::collections::{BTreeMap, BTreeSet};

use nodeward_model::{Nodemask, SegmentId};
use nodeward_policy::placement::{Decision, EntityId};

use super::report::{Done, Notice};

/// The results of a round so far.
#[derive(Default)]
pub struct RoundState {
    pub notices: Vec<Notice>,
    pub sampled: u64,
    pub sample_later: u64,
    /// Where threads are at home, if a scheduler is to know it.
    pub thread_homes: BTreeMap<u32, Nodemask>,
    pub done: BTreeMap<EntityId, Done>,
    /// The decisions about groups, in the order of the groups' numbers.
    pub groups: Vec<Decision>,
    /// Entities whose memory move ended.
    pub ended: BTreeSet<EntityId>,
    pub segments_done: BTreeMap<SegmentId, Done>,
    /// The segments whose move ended.
    pub segments_ended: BTreeSet<SegmentId>,
}

impl RoundState {
    pub fn moved_pages(&self) -> u64 {
        let all = self.done.values().chain(self.segments_done.values());
        all.map(|done| done.pages_moved).sum()
    }

    /// Returns the number of threads that are on the nodes to which they were sent.
    pub fn nudged(&self) -> u64 {
        self.done.values().map(|done| u64::from(done.threads_placed)).sum()
    }
}
