//! What `top` shows of one refresh.

use std::collections::BTreeMap;

use nodeward_model::name::in_json;
use nodeward_model::{Name, NodeId, Nodemask, Pid, ZoneLists};
use serde::Serialize;

/// The figures of one refresh.
#[derive(Clone, Debug, Default, Serialize)]
pub struct TopSample {
    /// When they were read, by the machine's clock, in nanoseconds.
    pub at_ns: u64,
    /// Bytes in a base page.
    pub page_bytes: u64,
    /// The nodes, in ascending order.
    pub nodes: Vec<NodeFigures>,
    /// The processes with memory, in ascending order of pids.
    pub processes: Vec<ProcessFigures>,
    /// The groups of threads and memory.
    pub groups: Vec<GroupFigures>,
    /// Bytes migrated per second since the last refresh, by whomever, also within a node; `None`
    /// at the first refresh, and where that is not counted.
    pub migrated_bytes_per_s: Option<u64>,
    /// Who decided.
    pub decided_by: DecidedBy,
    /// What a reader of the figures should know: other balancers, an agent that is gone.
    pub notices: Vec<String>,
    /// CPU time of this program since the last refresh, in millionths of a CPU; `None` at the first
    /// refresh.
    pub own_cpu_ppm: Option<u64>,
}

/// Who decided about homes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DecidedBy {
    /// This program, as `nodeward balance --dry-run` would; nothing of it is done.
    #[default]
    DryRun,
    /// The balancer behind the agent.
    Agent,
    /// The same, which stands back: nothing of it is done.
    AgentStandingBack,
}

/// A node.
#[derive(Clone, Debug, Serialize)]
pub struct NodeFigures {
    /// Its number.
    pub node: NodeId,
    /// Number of its CPUs.
    pub cpus: u64,
    /// All its memory.
    pub total_bytes: u64,
    /// Memory that is free above the kernel's reserve.
    pub free_bytes: u64,
    /// Of the pages that were allocated on it since the last refresh, those for threads that ran
    /// there, in millionths; `None` if that is not known or none was allocated.
    pub local_ppm: Option<u64>,
    /// Bytes that its memory read and wrote per second; `None` where that is not counted.
    pub traffic_bytes_per_s: Option<u64>,
    /// The per-CPU page lists of its zones; `None` where the machine does not tell.
    pub page_lists: Option<PageLists>,
}

/// The per-CPU page lists of a node's zones, all together: free pages that CPUs keep for
/// themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PageLists {
    /// Base pages in them.
    pub pages: u64,
    /// Base pages beyond which CPUs give some back.
    pub high_pages: u64,
}

impl PageLists {
    /// Returns the sums of the zones of each node.
    pub fn by_node(zones: &[ZoneLists]) -> BTreeMap<NodeId, Self> {
        let mut nodes = BTreeMap::<NodeId, Self>::new();
        for zone in zones {
            let lists = nodes.entry(zone.node).or_default();
            lists.pages += zone.count_pages();
            lists.high_pages += zone.high_pages();
        }
        nodes
    }
}

impl NodeFigures {
    /// Returns the memory that is not free.
    pub fn used_bytes(&self) -> u64 {
        self.total_bytes.saturating_sub(self.free_bytes)
    }
}

/// A process. What is not known, for one because it belongs to others, is `None`.
#[derive(Clone, Debug, Serialize)]
pub struct ProcessFigures {
    /// Its pid.
    pub pid: Pid,
    /// Its start time in clock ticks, which tells it from another process with its pid.
    #[serde(skip)]
    pub started_ticks: u64,
    /// Its name, as the kernel keeps it (15 bytes).
    #[serde(flatten, serialize_with = "in_json")]
    pub name: Name,
    /// CPU time since the last refresh, in millionths of a CPU.
    pub cpu_ppm: Option<u64>,
    /// Memory in use that is not a mapped file.
    pub memory_bytes: Option<u64>,
    /// Its threads by the node on which they ran last.
    pub threads: BTreeMap<NodeId, u32>,
    /// Where its memory is.
    pub residency: Option<SampledResidency>,
    /// What was decided about it.
    pub decision: Option<DecisionFigures>,
    /// The privilege that is missing to look at it.
    pub denied: Option<String>,
}

/// Memory by node, as it was sampled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SampledResidency {
    /// Bytes by node.
    pub bytes: BTreeMap<NodeId, u64>,
    /// When that was, by the machine's clock; `None` if another program sampled it at a time that
    /// it does not tell.
    pub at_ns: Option<u64>,
}

/// A group of threads and memory.
#[derive(Clone, Debug, Serialize)]
pub struct GroupFigures {
    /// Its name.
    pub name: String,
    /// The processes that are in it.
    pub processes: Vec<Pid>,
    /// Its threads by the node on which they ran last.
    pub threads: BTreeMap<NodeId, u32>,
    /// Where its memory is.
    pub residency: SampledResidency,
    /// What was decided about it.
    pub decision: DecisionFigures,
}

/// A decision of a balancer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DecisionFigures {
    /// Its home in words; `None` if it has none.
    pub home: Option<String>,
    /// The nodes where its threads belong; empty if it has no home.
    pub home_nodes: Nodemask,
    /// The nodes where its memory belongs; empty if it has no home.
    pub memory_nodes: Nodemask,
    /// What moves now, in words.
    pub action: String,
    /// Why, as `nodeward explain` has it; first the reason for the home.
    pub reasons: Vec<String>,
}

impl DecisionFigures {
    /// Returns how many of these threads are away from home; `None` without a home.
    pub fn threads_astray(&self, threads: &BTreeMap<NodeId, u32>) -> Option<u32> {
        let away = threads.iter().filter(|(node, _)| !self.home_nodes.contains(**node));
        self.home.as_ref().map(|_| away.map(|(_, count)| count).sum())
    }

    /// Returns how many of these bytes are away from home; `None` without a home.
    pub fn bytes_away(&self, residency: &SampledResidency) -> Option<u64> {
        let away = residency.bytes.iter().filter(|(node, _)| !self.memory_nodes.contains(**node));
        self.home.as_ref().map(|_| away.map(|(_, bytes)| bytes).sum())
    }
}

impl ProcessFigures {
    /// Returns how many of its threads are away from home; `None` if that is not known.
    pub fn threads_astray(&self) -> Option<u32> {
        self.decision.as_ref()?.threads_astray(&self.threads)
    }

    /// Returns how many bytes of its memory are away from home; `None` if that is not known.
    pub fn bytes_away(&self) -> Option<u64> {
        self.decision.as_ref()?.bytes_away(self.residency.as_ref()?)
    }
}

/// A closer look at one process.
#[derive(Clone, Debug)]
pub struct ProcessDetail {
    /// Its pid.
    pub pid: Pid,
    /// When it was looked at, by the machine's clock.
    pub at_ns: u64,
    /// Parts of its memory, the largest first.
    pub parts: Vec<MemoryPart>,
    /// How many further parts there are that were not looked at.
    pub parts_left: usize,
    /// The decision about it with its reasons and numbers, or why there is none.
    pub explanation: String,
    /// Why its memory could not be looked at.
    pub error: Option<String>,
}

/// A mapping, or all mappings of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryPart {
    /// Addresses and kind, or only the kind.
    pub what: String,
    /// Its file, if it has one.
    pub path: Name,
    /// Bytes by node.
    pub bytes: BTreeMap<NodeId, u64>,
}

#[cfg(test)]
pub mod test_sample;
