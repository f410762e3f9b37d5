//! The last residency sample of a process, and the times at which the process is to be sampled
//! again.

use std::collections::BTreeMap;

use nodeward_model::{MemoryPolicies, Name, NodeId, SegmentId};
use nodeward_policy::damping::Retry;
use nodeward_policy::placement::EntityId;

/// Shares of memory that differ by less than this count as equal, in ppm.
const SAME_PPM: u64 = 50_000;

/// The residency of a process at one moment.
#[derive(Clone, Debug, Default)]
pub struct ResidencySample {
    /// Time of the sample, by the machine's clock.
    pub at_ns: u64,
    /// Base pages by node.
    pub pages: BTreeMap<NodeId, u64>,
    /// Base pages by node of each segment that no other process was known to map. `pages` contains
    /// them.
    pub segment_pages: BTreeMap<SegmentId, BTreeMap<NodeId, u64>>,
    /// Base pages by node that a memory policy binds, or that the process moves itself. `pages`
    /// contains them.
    pub bound_pages: BTreeMap<NodeId, u64>,
    /// Pages by node of each part that belongs to a group, by its number; not among `pages`.
    pub parts: BTreeMap<EntityId, PartSample>,
    /// The memory policies of the process.
    pub bound: MemoryPolicies,
    /// Time at which the policies were read.
    pub bound_at_ns: u64,
    /// Name and amount of memory of the process at that time.
    pub name: Name,
    pub own_bytes: u64,
    /// Pages that others had migrated on the machine when the sample was taken.
    pub others_pages: u64,
    /// The node that had most of the process's load.
    pub busiest: Option<NodeId>,
    /// Checksum of the program that the process ran.
    pub program: u32,
}

/// The residency of a part of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartSample {
    /// Base pages by node.
    pub pages: BTreeMap<NodeId, u64>,
    /// Base pages by node that a memory policy binds, or that the process moves itself.
    pub bound_pages: BTreeMap<NodeId, u64>,
}

/// The times at which a process is to be sampled again.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sampling {
    /// True if memory of the process was moved and not sampled since.
    pub is_due: bool,
    /// Time from which the process may be sampled again without a cause.
    pub retry: Retry,
    /// Time limit of the next sample in nanoseconds, if the last one was cut short.
    pub time_ns: u64,
}

impl PartSample {
    /// Returns the sample of a part with these free pages and these bound pages.
    pub fn of(mut pages: BTreeMap<NodeId, u64>, bound_pages: BTreeMap<NodeId, u64>) -> Self {
        for (node, bound) in &bound_pages {
            *pages.entry(*node).or_default() += bound;
        }
        Self { pages, bound_pages }
    }
}

impl ResidencySample {
    /// Returns whether policies and shares of nodes are the same in both samples.
    pub fn says_the_same(&self, other: &Self) -> bool {
        let is_alike = |(part, sample): (&EntityId, &PartSample)| {
            other.parts.get(part).is_some_and(|other| is_same(&sample.pages, &other.pages))
        };
        self.bound == other.bound
            && is_same(&self.pages, &other.pages)
            && self.parts.len() == other.parts.len()
            && self.parts.iter().all(is_alike)
    }

    /// Returns the pages of a part that belongs to a group; of what belongs to none, if there is no
    /// such part.
    pub fn pages_of(&self, entity: EntityId) -> &BTreeMap<NodeId, u64> {
        self.parts.get(&entity).map_or(&self.pages, |part| &part.pages)
    }

    /// Returns the pages of an entity that a policy binds, or that the process moves itself.
    pub fn bound_of(&self, entity: EntityId) -> &BTreeMap<NodeId, u64> {
        self.parts.get(&entity).map_or(&self.bound_pages, |part| &part.bound_pages)
    }

    /// Takes out the pages of a segment that other processes map, too.
    pub fn leave_out(&mut self, segment: SegmentId) {
        for (node, pages) in self.segment_pages.remove(&segment).unwrap_or_default() {
            let all = self.pages.entry(node).or_default();
            *all = all.saturating_sub(pages);
        }
    }
}

/// Returns whether the shares of nodes are the same.
pub fn is_same(before: &BTreeMap<NodeId, u64>, now: &BTreeMap<NodeId, u64>) -> bool {
    let share = |pages: &BTreeMap<NodeId, u64>, node: &NodeId| {
        let whole: u64 = pages.values().sum();
        let on = pages.get(node).copied().unwrap_or(0);
        u64::try_from(u128::from(on) * 1_000_000 / u128::from(whole.max(1))).unwrap_or(0)
    };
    let mut nodes = before.keys().chain(now.keys());
    nodes.all(|node| share(before, node).abs_diff(share(now, node)) < SAME_PPM)
}
