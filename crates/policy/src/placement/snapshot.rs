//! The input of a decision: the processes and nodes of a machine at one moment, as values.

use std::collections::BTreeMap;

use nodeward_model::topology::Distances;
use nodeward_model::{NodeId, Nodemask, SegmentId};
use serde::{Deserialize, Serialize};

use super::rules::{CPU_PPM, Rules};

/// A machine and its processes at one moment. Loads are those since the snapshot before, so the
/// first decision needs two snapshots.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// The time of the snapshot, by the machine's clock, in nanoseconds. The clock may jump.
    pub at_ns: u64,
    /// The size of a base page, in bytes.
    pub page_bytes: u64,
    /// The nodes that are online.
    pub nodes: BTreeMap<NodeId, NodeState>,
    /// The part of the time in which some task stood still for want of memory, in millionths, if
    /// that is known.
    pub stalled_ppm: Option<u32>,
    /// The distances between nodes; without them every other node is at distance 20.
    pub distances: Option<Distances>,
    /// The affinities that threads have, each once; threads name them by their position.
    pub affinities: Vec<Affinity>,
    /// The kernel's NUMA balancing is at work, too, and what it decided stands.
    pub kernel_balances: bool,
    /// The processes and groups, each once.
    pub entities: Vec<Entity>,
    /// The segments that several processes map, each once.
    pub segments: Vec<Segment>,
    /// The load of processes that it is too early to decide about, in millionths of a CPU.
    pub others_ppm: u64,
}

/// A node at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeState {
    /// The CPUs of the node that are online; none if it is memory only.
    pub cpus: u32,
    /// All memory of the node, in base pages; none if it has only CPUs.
    pub pages: u64,
    /// The base pages that the node can still take above its watermarks.
    pub room_pages: u64,
    /// The pages since the snapshot before that were meant for the node and came from elsewhere.
    pub foreign_pages: u64,
    /// The traffic of the node's memory controller, in millionths of its maximum, if that is known.
    pub traffic_ppm: Option<u32>,
    /// The node is to be kept empty: nothing gets a home there, and what is there leaves.
    pub keep_empty: bool,
}

/// A process, or a group of threads and memory: each gets a home. Threads and memory of a group do
/// not belong to their process here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entity {
    /// The number of the entity.
    pub id: EntityId,
    /// The CPU time that all threads of the entity ever had, in nanoseconds.
    pub run_ns: u64,
    /// The CPU time of the children that a process started and saw end, in nanoseconds.
    pub children_ns: u64,
    /// The threads of the entity, each once.
    pub threads: Vec<Thread>,
    /// The entity's own memory by node, in base pages, as the last residency sample has it; empty
    /// before the first sample.
    pub pages: BTreeMap<NodeId, u64>,
    /// The time of that sample. A memory move is judged, and repeated, only when a new sample has
    /// been taken.
    pub pages_at_ns: u64,
    /// The pages among `pages` that cannot be moved: in ranges that a policy binds, or refused
    /// before.
    pub fixed_pages: BTreeMap<NodeId, u64>,
    /// The nodes on which the entity may have memory.
    pub may_hold: Nodemask,
    /// The nodes where the user wants the entity.
    pub target: Target,
    /// The reason for which the entity must be left alone.
    pub exclusion: Option<Exclusion>,
}

/// The nodes where the user wants an entity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Target {
    /// Any node: the rule chooses.
    #[default]
    Anywhere,
    /// One of these nodes, or several of them if the entity is larger than each. Memory goes there
    /// whatever that saves.
    Within(Nodemask),
    /// These nodes: threads on any of them, memory evenly on all of them.
    Even(Nodemask),
    /// The homes of these groups, to which threads of a process belong. The memory that is left
    /// to the process goes, page by page, to the threads that use it.
    WithGroups(Vec<EntityId>),
}

/// A segment of shared memory, which belongs to none of the processes that map it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// The device and the inode of the segment.
    pub id: SegmentId,
    /// The processes that map the segment, each once.
    pub users: Vec<SegmentUser>,
    /// The segment's memory by node, in base pages, as the last residency sample has it; empty
    /// before the first sample.
    pub pages: BTreeMap<NodeId, u64>,
    /// The time of that sample. A move is judged, and repeated, only when a new sample has been
    /// taken.
    pub pages_at_ns: u64,
    /// The pages among `pages` that cannot be moved.
    pub fixed_pages: BTreeMap<NodeId, u64>,
    /// The nodes on which all users may have memory.
    pub may_hold: Nodemask,
    /// The reason for which the segment must be left alone.
    pub exclusion: Option<SegmentExclusion>,
}

/// A process that maps a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegmentUser {
    /// The number of the process.
    pub entity: EntityId,
    /// The load of the process since the snapshot before, in millionths of a CPU. It is used if it
    /// is too early to decide about the process.
    pub load_ppm: u64,
}

/// The reason for which a segment is left alone whatever would be gained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentExclusion {
    /// We may not move pages that several processes map.
    NoRight,
    /// A program set a memory policy for the segment.
    ExplicitPolicy,
    /// We may not act on a process that maps the segment.
    Denied,
    /// The user excluded a process that maps the segment.
    Excluded,
}

/// The number of an entity. The balancer gives each number once.
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
    /// The node on which the thread ran last.
    pub node: NodeId,
    /// The node to which the thread's part of the memory goes, if its process is spread and that is
    /// known.
    pub near: Option<NodeId>,
    /// The node on which the kernel's NUMA balancing wants the thread, while that counts.
    pub kernel_prefers: KernelPreference,
    /// The CPU time that the thread had since the snapshot before, in millionths of one CPU.
    pub load_ppm: u32,
    /// The time for which the thread waited for a CPU, in millionths of the time between the
    /// snapshots, where the machine tells; else 0.
    pub wait_ppm: u32,
    /// The position of the thread's affinity in [`Snapshot::affinities`].
    pub affinity: usize,
}

/// The node on which the kernel's NUMA balancing wants a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KernelPreference {
    /// Any node: the kernel does not place this thread.
    #[default]
    Anywhere,
    /// The kernel may still decide.
    Undecided,
    /// This node.
    Node(NodeId),
}

/// The CPUs of each node on which a thread may run, as numbers: its affinity within its cpuset.
/// Nodes without any are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Affinity(pub BTreeMap<NodeId, u32>);

/// The reason for which an entity is left alone whatever would be gained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Exclusion {
    /// A memory policy of the process says where all its memory goes.
    ExplicitPolicy,
    /// The control group of the process is frozen.
    Frozen,
    /// We may not move memory or threads of the process.
    Denied,
    /// The kernel is moving pages of the process now. Its home is forgotten, and decided anew when
    /// the kernel is done.
    KernelMoves,
    /// The user excluded the process.
    Excluded,
    /// All threads of the process belong to groups.
    Grouped,
    /// The process is the balancer itself.
    Ourselves,
}

impl Target {
    /// Returns whether somebody set nodes.
    pub(super) fn is_set(&self) -> bool {
        matches!(self, Self::Within(_) | Self::Even(_))
    }

    /// Returns whether memory is to be even on set nodes.
    pub(super) fn is_even(&self) -> bool {
        matches!(self, Self::Even(_))
    }

    /// Returns whether the nodes are those of groups.
    pub(super) fn is_with_groups(&self) -> bool {
        matches!(self, Self::WithGroups(_))
    }

    /// Returns whether a home may be on this node.
    pub(super) fn admits(&self, node: NodeId) -> bool {
        match self {
            Self::Anywhere => true,
            Self::Within(nodes) | Self::Even(nodes) => nodes.contains(node),
            Self::WithGroups(_) => false,
        }
    }
}

impl NodeState {
    /// Returns whether the node is short of memory, so that nothing is moved to it: next to nothing
    /// is free, or memory that was meant for it came from other nodes.
    pub fn is_short(&self, rules: &Rules) -> bool {
        let part = |ppm: u32| u128::from(self.pages) * u128::from(ppm) / 1_000_000;
        u128::from(self.room_pages) < part(rules.short_ppm)
            || u128::from(self.foreign_pages) > part(rules.foreign_ppm_max)
    }
}

impl Thread {
    /// Returns the part of a CPU that the thread had, in millionths.
    pub(super) fn ran_ppm(&self) -> u64 {
        u64::from(self.load_ppm).min(CPU_PPM)
    }

    /// Returns the part of a CPU that the thread had or waited for, in millionths.
    pub(super) fn wanted_ppm(&self) -> u64 {
        wanted_ppm(self.load_ppm, self.wait_ppm)
    }
}

impl Affinity {
    /// Returns how many CPUs of a node the affinity leaves.
    pub fn cpus(&self, node: NodeId) -> u32 {
        self.0.get(&node).copied().unwrap_or(0)
    }
}

/// Returns the part of one CPU that a thread wants, in millionths: what it had and what it waited
/// for.
pub fn wanted_ppm(load_ppm: u32, wait_ppm: u32) -> u64 {
    (u64::from(load_ppm) + u64::from(wait_ppm)).min(CPU_PPM)
}
