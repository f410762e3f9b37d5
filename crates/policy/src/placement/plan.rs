//! The plan: homes, threads and memory to move, and a decision with its reasons for each entity.

use std::collections::BTreeMap;

use nodeward_model::{NodeId, Nodemask, SegmentId};
use serde::{Deserialize, Serialize};

use super::home::Home;
use super::reason::Reason;
use super::snapshot::EntityId;

/// What to do in a round, and why.
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
    /// What each node has and would have.
    pub nodes: BTreeMap<NodeId, NodeSum>,
    /// Whether nothing is to be done, and nothing waits for its time: looks may be rare.
    pub settled: bool,
}

/// A thread to bring to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nudge {
    /// Whose thread.
    pub entity: EntityId,
    /// Which thread.
    pub tid: u32,
    /// Where it goes: nodes on which it may run.
    pub to: Nodemask,
}

/// Memory to bring to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryMove {
    /// Whose memory.
    pub entity: EntityId,
    /// The nodes that it leaves.
    pub from: Nodemask,
    /// The node that it goes to.
    pub to: NodeId,
    /// The most base pages to move.
    pub pages_max: u64,
    /// What it saves within the horizon, in nanoseconds.
    pub gain_ns: u64,
    /// What it costs, in nanoseconds.
    pub cost_ns: u64,
    /// Why.
    pub reason: Reason,
}

/// Pages of a segment to bring to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentMove {
    /// Which segment.
    pub segment: SegmentId,
    /// The nodes that they leave.
    pub from: Nodemask,
    /// The node that they go to.
    pub to: NodeId,
    /// The nodes where the segment belongs, that one among them.
    pub target: Nodemask,
    /// The most base pages to move.
    pub pages_max: u64,
    /// What it saves all users within the horizon, in nanoseconds.
    pub gain_ns: u64,
    /// What it costs, in nanoseconds.
    pub cost_ns: u64,
    /// Why.
    pub reason: Reason,
}

/// What was decided about a segment, and from what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SegmentDecision {
    /// Which one.
    pub segment: SegmentId,
    /// Why it moves or stays.
    pub reason: Reason,
    /// The processes that map it, have load, and have a home.
    pub users: u32,
    /// Where it belongs by their homes; none if it is left alone whatever these are.
    pub nodes: Nodemask,
    /// Its memory, in base pages.
    pub pages: u64,
    /// Of that what would move.
    pub pages_away: u64,
    /// Of that what is moved now.
    pub pages_planned: u64,
    /// What moving `pages_away` would save all users within their horizons, in nanoseconds.
    pub gain_ns: u64,
    /// What it would cost, in nanoseconds.
    pub cost_ns: u64,
    /// How long it still waits before it may be moved again, in nanoseconds.
    pub wait_ns: u64,
    /// Whether counts of who uses which page would help to place it (`policy::hot`).
    pub counts_wanted: bool,
    /// The load of its users, in millionths of a CPU.
    pub load_ppm: u64,
    /// For how long its users are expected to go on: the longest of their horizons, in nanoseconds.
    pub horizon_ns: u64,
    /// The base pages that each of `nodes` can take.
    #[serde(skip)]
    pub rooms: BTreeMap<NodeId, u64>,
}

/// What was decided about an entity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Decision {
    /// Which one. Its number is given once; a pid may come back, this never.
    pub entity: EntityId,
    /// What is done about its home.
    pub verdict: Verdict,
    /// Why.
    pub reason: Reason,
    /// Why its threads that are away from home are not brought there, all or some.
    #[serde(rename = "threads_reason")]
    pub threads: Option<Reason>,
    /// Why its memory that is away is moved or not; `None` if it has no home or no memory.
    #[serde(rename = "memory_reason")]
    pub memory: Option<Reason>,
    /// Whether counts of who uses which page would help to place it (`policy::hot`).
    pub counts_wanted: bool,
    /// The base pages that each of its memory nodes can take.
    #[serde(skip)]
    pub rooms: BTreeMap<NodeId, u64>,
    /// What the decision was made from.
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

/// What is done about a home.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It has none, and is left alone.
    Left,
    /// It gets its first.
    Settles,
    /// It stays.
    Stays,
    /// It goes to another.
    Moves,
}

/// What a decision was made from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Numbers {
    /// CPU time that it had or wanted, as the mean of the last looks, in millionths of a CPU.
    pub load_ppm: u64,
    /// What is at home on its node in all, in millionths of a CPU.
    pub node_load_ppm: u64,
    /// What may be at home there, in millionths of a CPU.
    pub node_limit_ppm: u64,
    /// Its memory, in base pages.
    pub pages: u64,
    /// Of that what is not where it belongs and could be moved.
    pub pages_away: u64,
    /// Of that what is moved now.
    pub pages_planned: u64,
    /// Base pages that its home can take.
    pub room_pages: u64,
    /// In what part of the time some task on the machine stood still for want of memory, where that
    /// is known.
    pub stalled_ppm: Option<u32>,
    /// For how long it is expected to go on: the horizon, in nanoseconds.
    pub horizon_ns: u64,
    /// What moving `pages_away` would save within the horizon, in nanoseconds.
    pub gain_ns: u64,
    /// What it would cost, in nanoseconds.
    pub cost_ns: u64,
    /// Its threads that are not where they belong.
    pub threads_away: u32,
    /// Of those the ones to be brought there now.
    pub threads_nudged: u32,
    /// How long it still waits before its home or its memory may be moved again.
    pub wait_ns: u64,
}

/// A node's part: CPU load in millionths of a CPU, memory in base pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NodeSum {
    /// Load of entities that are at home here, wherever they run.
    pub home_load_ppm: u64,
    /// What may be at home here.
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
