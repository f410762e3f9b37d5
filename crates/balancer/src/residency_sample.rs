//! Where the memory of a process was when it was sampled last, and when it is to be sampled again.

use std::collections::BTreeMap;

use nodeward_model::{MemoryPolicies, Name, NodeId};
use nodeward_policy::damping::Retry;

/// A share that changed by less is the same, in ppm.
const SAME_PPM: u64 = 50_000;

/// Where the memory of a process was at one moment.
#[derive(Clone, Debug, Default)]
pub struct ResidencySample {
    /// When, by the machine's clock.
    pub at_ns: u64,
    /// Pages by node.
    pub pages: BTreeMap<NodeId, u64>,
    /// Of those the ones that a policy binds.
    pub bound_pages: BTreeMap<NodeId, u64>,
    /// What the program told the kernel about its memory.
    pub bound: MemoryPolicies,
    /// When that was read.
    pub bound_at_ns: u64,
    /// What the process was called and what it had at the time.
    pub name: Name,
    pub own_bytes: u64,
    /// What others had migrated on the machine.
    pub others_pages: u64,
    /// The node that most of its load was on.
    pub busiest: Option<NodeId>,
    /// What program it ran.
    pub program: u32,
}

/// When a process is to be sampled again.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sampling {
    /// Its memory was moved and not sampled since.
    pub is_due: bool,
    /// When it may be sampled without need.
    pub retry: Retry,
    /// How long the next sample may take, in nanoseconds, if the last one was cut short.
    pub time_ns: u64,
}

impl ResidencySample {
    /// Whether memory is bound as it was, and the shares of nodes are what they were.
    pub fn says_the_same(&self, other: &Self) -> bool {
        self.bound == other.bound && is_same(&self.pages, &other.pages)
    }
}

/// Whether the shares of nodes are what they were.
fn is_same(before: &BTreeMap<NodeId, u64>, now: &BTreeMap<NodeId, u64>) -> bool {
    let share = |pages: &BTreeMap<NodeId, u64>, node: &NodeId| {
        let whole: u64 = pages.values().sum();
        let on = pages.get(node).copied().unwrap_or(0);
        u64::try_from(u128::from(on) * 1_000_000 / u128::from(whole.max(1))).unwrap_or(0)
    };
    let mut nodes = before.keys().chain(now.keys());
    nodes.all(|node| share(before, node).abs_diff(share(now, node)) < SAME_PPM)
}
