//! The plan: homes, threads and memory to move, and a decision with its reasons for each entity.

use std::collections::BTreeMap;

use nodeward_model::{NodeId, Nodemask, SegmentId};
use serde::{Deserialize, Serialize};

use super::home::Home;
use super::reason::Reason;
use super::snapshot::EntityId;

/// The output of a decision: what to do in a round, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The home of each entity that has one.
    pub homes: BTreeMap<EntityId, Home>,
    /// Threads to bring home. They may be carried out in any order, all or some.
    pub nudges: Vec<Nudge>,
    /// Memory to bring home, what gains most for its cost first.
    pub moves: Vec<MemoryMove>,
    /// Segments to move.
    pub segment_moves: Vec<SegmentMove>,
    /// One for each entity of the snapshot, in the order of their numbers.
    pub decisions: Vec<Decision>,
    /// One for each segment, in the order of their ids.
    pub segments: Vec<SegmentDecision>,
    /// The load and the memory of each node, as they are and as homes would have them.
    pub nodes: BTreeMap<NodeId, NodeSum>,
    /// Nothing is to be done, and nothing waits for its time: looks may be rare.
    pub settled: bool,
}

/// A thread to bring to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nudge {
    /// The entity of the thread.
    pub entity: EntityId,
    /// The kernel's number of the thread.
    pub tid: u32,
    /// The nodes to which the thread goes, and on which it may run.
    pub to: Nodemask,
}

/// Memory to bring to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryMove {
    /// The entity of the memory.
    pub entity: EntityId,
    /// The nodes that the memory leaves.
    pub from: Nodemask,
    /// The node to which the memory goes.
    pub to: NodeId,
    /// The most base pages to move.
    pub pages_max: u64,
    /// The time that the move saves within the horizon, in nanoseconds.
    pub gain_ns: u64,
    /// The cost of the move, in nanoseconds.
    pub cost_ns: u64,
    /// The reason for the move.
    pub reason: Reason,
}

/// Pages of a segment to bring to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentMove {
    /// The device and the inode of the segment.
    pub segment: SegmentId,
    /// The nodes that the pages leave.
    pub from: Nodemask,
    /// The node to which the pages go.
    pub to: NodeId,
    /// The nodes where the segment belongs, that one among them.
    pub target: Nodemask,
    /// The most base pages to move.
    pub pages_max: u64,
    /// The time that the move saves all users within their horizons, in nanoseconds.
    pub gain_ns: u64,
    /// The cost of the move, in nanoseconds.
    pub cost_ns: u64,
    /// The reason for the move.
    pub reason: Reason,
}

/// The decision about a segment, and the numbers behind it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SegmentDecision {
    /// The device and the inode of the segment.
    pub segment: SegmentId,
    /// The reason for which the segment moves or stays.
    pub reason: Reason,
    /// The number of processes that map the segment, have load, and have a home.
    pub users: u32,
    /// The nodes where the segment belongs by the homes of its users; none if it is left alone
    /// whatever these are.
    pub nodes: Nodemask,
    /// The memory of the segment, in base pages.
    pub pages: u64,
    /// The pages of that which are not where they belong.
    pub pages_away: u64,
    /// The pages of those which are moved now.
    pub pages_planned: u64,
    /// The time that moving `pages_away` would save all users within their horizons, in
    /// nanoseconds.
    pub gain_ns: u64,
    /// The cost of moving `pages_away`, in nanoseconds.
    pub cost_ns: u64,
    /// The time until the segment may be moved again, in nanoseconds.
    pub wait_ns: u64,
    /// Counts of who uses which page would help to place the segment (`policy::hot`).
    pub counts_wanted: bool,
    /// The load of the users, in millionths of a CPU.
    pub load_ppm: u64,
    /// The longest horizon of the users, in nanoseconds.
    pub horizon_ns: u64,
    /// The base pages that each of `nodes` can take.
    #[serde(skip)]
    pub rooms: BTreeMap<NodeId, u64>,
}

/// The decision about an entity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Decision {
    /// The number of the entity. A pid may come back, this number never.
    pub entity: EntityId,
    /// The change of the home.
    pub verdict: Verdict,
    /// The reason for that.
    pub reason: Reason,
    /// The reason for which threads that are away from home, all or some, are not brought there.
    #[serde(rename = "threads_reason")]
    pub threads: Option<Reason>,
    /// The reason for which memory that is away from home is moved or not; `None` if the entity has
    /// no home or no memory.
    #[serde(rename = "memory_reason")]
    pub memory: Option<Reason>,
    /// Counts of who uses which page would help to place the entity's memory (`policy::hot`).
    pub counts_wanted: bool,
    /// The base pages that each memory node of the home can take.
    #[serde(skip)]
    pub rooms: BTreeMap<NodeId, u64>,
    /// The numbers behind the decision.
    pub numbers: Numbers,
}

impl Decision {
    /// Returns a decision about a home, and about nothing else.
    pub fn new(entity: EntityId, verdict: Verdict, reason: Reason) -> Self {
        Self {
            entity,
            verdict,
            reason,
            threads: None,
            memory: None,
            counts_wanted: false,
            rooms: BTreeMap::new(),
            numbers: Numbers::default(),
        }
    }
}

/// The change of a home.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The entity has no home, and is left alone.
    Left,
    /// The entity gets its first home.
    Settles,
    /// The home stays.
    Stays,
    /// The entity gets another home.
    Moves,
}

impl Verdict {
    /// Returns its name in output and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Left => "left",
            Self::Settles => "settles",
            Self::Stays => "stays",
            Self::Moves => "moves",
        }
    }
}

/// The numbers behind a decision about an entity.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Numbers {
    /// The mean load of the entity, in millionths of a CPU.
    pub load_ppm: u64,
    /// The load of all that is at home on its nodes, in millionths of a CPU.
    pub node_load_ppm: u64,
    /// The limit of that load, in millionths of a CPU.
    pub node_limit_ppm: u64,
    /// The memory of the entity, in base pages.
    pub pages: u64,
    /// The pages of that which are not where they belong and could be moved.
    pub pages_away: u64,
    /// The pages of those which are moved now.
    pub pages_planned: u64,
    /// The base pages that the home can take.
    pub room_pages: u64,
    /// The part of the time in which some task on the machine stood still for want of memory, in
    /// millionths, if that is known.
    pub stalled_ppm: Option<u32>,
    /// The horizon of the entity, for which it is expected to go on, in nanoseconds.
    pub horizon_ns: u64,
    /// The time that moving `pages_away` would save within the horizon, in nanoseconds.
    pub gain_ns: u64,
    /// The cost of moving `pages_away`, in nanoseconds.
    pub cost_ns: u64,
    /// The threads of the entity that are not where they belong.
    pub threads_away: u32,
    /// The threads of those which are brought there now.
    pub threads_nudged: u32,
    /// The time until the home or the memory may be moved again, in nanoseconds.
    pub wait_ns: u64,
}

/// A node's part: CPU load in millionths of a CPU, memory in base pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NodeSum {
    /// Load of entities that are at home here, wherever they run.
    pub home_load_ppm: u64,
    /// The limit of that load.
    pub limit_ppm: u64,
    /// Load of threads at home here that ran here.
    pub local_load_ppm: u64,
    /// Load of threads at home here that ran elsewhere.
    pub away_load_ppm: u64,
    /// Load of threads that ran here and have no home or another.
    pub other_load_ppm: u64,
    /// Memory of entities at home here that is here.
    pub local_pages: u64,
    /// Memory of entities at home here that is elsewhere.
    pub away_pages: u64,
    /// Memory here of entities that have no home or another.
    pub other_pages: u64,
}
