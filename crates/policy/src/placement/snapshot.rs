//! The input of a decision: the processes and nodes of a machine at one moment, as values.

use std::collections::BTreeMap;

use nodeward_model::topology::Distances;
use nodeward_model::{NodeId, Nodemask, SegmentId};
use serde::{Deserialize, Serialize};

use super::rules::{CPU_PPM, Rules};

/// A machine and its processes at one moment. Loads and growths are those since the snapshot
/// before, so the first one needs two looks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// When, by the machine's clock, in nanoseconds. It may jump.
    pub at_ns: u64,
    /// The size of a base page.
    pub page_bytes: u64,
    /// The nodes that are online.
    pub nodes: BTreeMap<NodeId, NodeState>,
    /// In what part of the time some task stood still for want of memory, where that is known.
    pub stalled_ppm: Option<u32>,
    /// How far nodes are from each other; without it every other node is at distance 20.
    pub distances: Option<Distances>,
    /// The affinities that threads have, each once; threads name them by their position.
    pub affinities: Vec<Affinity>,
    /// Whether the kernel's NUMA balancing is at work, too, and what it decided stands.
    pub kernel_balances: bool,
    /// The processes, each once.
    pub entities: Vec<Entity>,
    /// The segments that several of them map, each once.
    pub segments: Vec<Segment>,
    /// What threads of other processes ran or waited for, in millionths of a CPU: of those that it
    /// is too early to decide about.
    pub others_ppm: u64,
}

/// A node at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeState {
    /// Its CPUs that are online; none if it is memory only.
    pub cpus: u32,
    /// All its memory, in base pages; none if it has only CPUs.
    pub pages: u64,
    /// What it can still take above its watermarks, in base pages.
    pub room_pages: u64,
    /// Pages that were meant for it and came from elsewhere, since the snapshot before.
    pub foreign_pages: u64,
    /// What part of what its memory controller can deliver was asked of it, where that is known.
    pub traffic_ppm: Option<u32>,
    /// Whether it is to be kept empty: nothing gets a home there, and what is there leaves.
    pub keep_empty: bool,
}

/// What gets a home: a process, or a group of threads and memory. What belongs to a group is not a
/// part of its process here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entity {
    /// Its number.
    pub id: EntityId,
    /// CPU time that all its threads ever had, in nanoseconds.
    pub run_ns: u64,
    /// CPU time of the children that it started and saw end, in nanoseconds.
    pub children_ns: u64,
    /// Its threads, each once.
    pub threads: Vec<Thread>,
    /// Where its own memory was when it was sampled last, in base pages; empty before the first
    /// time.
    pub pages: BTreeMap<NodeId, u64>,
    /// When that was. A memory move is only judged, and repeated, when this has changed.
    pub pages_at_ns: u64,
    /// Which of `pages` cannot be moved: in ranges that a policy binds, or refused before.
    pub fixed_pages: BTreeMap<NodeId, u64>,
    /// The nodes that it may have memory of.
    pub may_hold: Nodemask,
    /// Where it is to be.
    pub target: Target,
    /// Why it must be left alone.
    pub exclusion: Option<Exclusion>,
}

/// Where an entity is to be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Target {
    /// Wherever it is best.
    #[default]
    Anywhere,
    /// On one of these nodes, or on several of them if it is larger than each. Its memory goes
    /// there whatever that saves.
    Within(Nodemask),
    /// Its threads on any of these nodes, its memory evenly on all of them.
    Even(Nodemask),
    /// Where these groups are at home, to which its threads belong: its pages go to the threads
    /// that use them.
    WithGroups(Vec<EntityId>),
}

/// A segment of shared memory, which belongs to none of the processes that map it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// Which one.
    pub id: SegmentId,
    /// The processes that map it, each once.
    pub users: Vec<SegmentUser>,
    /// Where its memory was when it was sampled last, in base pages; empty before the first time.
    pub pages: BTreeMap<NodeId, u64>,
    /// When that was. A move is only judged, and repeated, when this has changed.
    pub pages_at_ns: u64,
    /// Which of `pages` cannot be moved.
    pub fixed_pages: BTreeMap<NodeId, u64>,
    /// The nodes that all its users may have memory of.
    pub may_hold: Nodemask,
    /// Why it must be left alone.
    pub exclusion: Option<SegmentExclusion>,
}

/// A process that maps a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegmentUser {
    /// Which process.
    pub entity: EntityId,
    /// What its threads ran or waited for since the snapshot before, in millionths of a CPU. It
    /// counts if it is too early to decide about the process.
    pub load_ppm: u64,
}

/// Why a segment is left alone whatever would be gained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentExclusion {
    /// We may not move pages that several processes map.
    NoRight,
    /// A program told the kernel where it goes.
    ExplicitPolicy,
    /// We may not act on a process that maps it.
    Denied,
    /// The user excluded a process that maps it.
    Excluded,
}

/// The number of an entity. The balancer gives it, and never to a second process.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct EntityId(pub u64);

/// A thread at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thread {
    /// The kernel's number of the thread.
    pub tid: u32,
    /// The node on which it ran last.
    pub node: NodeId,
    /// The node to which its part of the memory goes, if its process is spread and that is known.
    pub near: Option<NodeId>,
    /// Where the kernel's NUMA balancing wants it, while that counts.
    pub kernel_prefers: KernelPreference,
    /// How much of one CPU it had since the snapshot before.
    pub load_ppm: u32,
    /// How much of that time it waited for a CPU, where the machine tells; else 0.
    pub wait_ppm: u32,
    /// Which of [`Snapshot::affinities`] is its affinity.
    pub affinity: usize,
}

/// Where the kernel's NUMA balancing wants a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KernelPreference {
    /// Anywhere: it does not place this thread.
    #[default]
    Anywhere,
    /// It may still decide.
    Undecided,
    /// On a node.
    Node(NodeId),
}

/// How many CPUs of each node a thread may run on: its affinity within its cpuset. Nodes without
/// any are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Affinity(pub BTreeMap<NodeId, u32>);

/// Why a process is left alone whatever would be gained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Exclusion {
    /// It told the kernel where all its memory goes.
    ExplicitPolicy,
    /// Its control group is frozen.
    Frozen,
    /// We may not move its memory or its threads.
    Denied,
    /// The kernel is moving its pages now. A home that it had is forgotten: where it belongs is
    /// decided anew when the kernel is done.
    KernelMoves,
    /// The user excluded it.
    Excluded,
    /// All its threads belong to groups.
    Grouped,
    /// It is the balancer itself.
    Ourselves,
}

impl Target {
    /// Whether somebody set it.
    pub(super) fn is_set(&self) -> bool {
        matches!(self, Self::Within(_) | Self::Even(_))
    }

    /// Whether it goes where groups are at home.
    pub(super) fn is_with_groups(&self) -> bool {
        matches!(self, Self::WithGroups(_))
    }

    /// Whether a home may be on this node.
    pub(super) fn admits(&self, node: NodeId) -> bool {
        match self {
            Self::Anywhere => true,
            Self::Within(nodes) | Self::Even(nodes) => nodes.contains(node),
            Self::WithGroups(_) => false,
        }
    }
}

impl NodeState {
    /// Whether the node is short of memory, so that nothing is moved to it: next to nothing is
    /// free, or what was meant for it spills to other nodes.
    pub fn is_short(&self, rules: &Rules) -> bool {
        let part = |ppm: u32| u128::from(self.pages) * u128::from(ppm) / 1_000_000;
        u128::from(self.room_pages) < part(rules.short_ppm)
            || u128::from(self.foreign_pages) > part(rules.foreign_ppm_max)
    }
}

impl Thread {
    /// What the thread had of a CPU, in millionths.
    pub(super) fn ran_ppm(&self) -> u64 {
        u64::from(self.load_ppm).min(CPU_PPM)
    }

    /// What the thread had of a CPU or waited for, in millionths.
    pub(super) fn wanted_ppm(&self) -> u64 {
        wanted_ppm(self.load_ppm, self.wait_ppm)
    }
}

impl Affinity {
    /// How many CPUs of a node the affinity leaves.
    pub fn cpus(&self, node: NodeId) -> u32 {
        self.0.get(&node).copied().unwrap_or(0)
    }
}

/// How much of one CPU a thread wants that had and waited for so much, in millionths.
pub fn wanted_ppm(load_ppm: u32, wait_ppm: u32) -> u64 {
    (u64::from(load_ppm) + u64::from(wait_ppm)).min(CPU_PPM)
}
