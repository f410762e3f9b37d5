//! What `report` saw while it watched a process, or all of them.

use std::collections::BTreeMap;

use nodeward_agent::wire::WireDecision;
use nodeward_balancer::{RoundReport, Undecided};
use nodeward_machine::AccessSourceStatus;
use nodeward_model::name::in_json;
use nodeward_model::{MappingKind, Name, NodeId, Pid, Topology};
use nodeward_policy::rank::RankedProcess;
use nodeward_records::ledger::Operation;
use serde::Serialize;

/// Memory, or time, by node.
pub type ByNode = BTreeMap<NodeId, u64>;

/// What was seen of a machine, from a beginning to an end. Times are nanoseconds since the
/// beginning.
#[derive(Clone, Debug)]
pub struct WatchReport {
    /// The process that was watched; `None` for all of them.
    pub subject: Option<Pid>,
    /// The scenario of a simulated machine, as it was named.
    pub scenario: Option<String>,
    /// Milliseconds since 1970 at the beginning; of no meaning on a simulated machine.
    pub began_unix_ms: u64,
    /// For how long it was to be watched.
    pub asked_ns: u64,
    /// For how long it was.
    pub watched_ns: u64,
    /// The time from one moment to the next.
    pub interval_ns: u64,
    /// Why it ended.
    pub end: WatchEnd,
    /// The machine at the beginning.
    pub topology: Topology,
    /// What was seen at each moment, the beginning first.
    pub moments: Vec<WatchMoment>,
    /// The processes that were followed, in the order in which they were first seen.
    pub processes: Vec<FollowedProcess>,
    /// Those that were not, at the last moment.
    pub unfollowed: UnfollowedProcesses,
    /// Moves of the ledger that went on meanwhile, the latest first.
    pub moves: Vec<Operation>,
    /// What a balancer decided that runs here; `None` if none was asked.
    pub decisions: Option<SeenDecisions>,
    /// What a balancer would do with the followed processes, by its last round here.
    pub estimate: Option<RoundReport>,
    /// Why there is no estimate for the one process.
    pub undecided: Option<Undecided>,
    /// The sources of accesses that the machine may have.
    pub access_sources: Vec<AccessSourceStatus>,
    /// What could not be seen.
    pub unseen: Vec<Unseen>,
}

/// Why a watch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum WatchEnd {
    /// Its time was over.
    Time,
    /// Ctrl-C or SIGTERM.
    Stopped,
    /// The process ended, or called exec.
    Gone,
}

/// The machine, and the processes that are watched, at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct WatchMoment {
    /// When.
    pub at_ns: u64,
    /// Use of each node's memory, in bytes.
    pub node_used_bytes: ByNode,
    /// CPU time of the watched processes since the last moment, by node, in nanoseconds.
    pub cpu_ns: ByNode,
    /// Threads of the watched processes by the node where they ran last.
    pub threads: ByNode,
    /// Base pages that the kernel migrated since the last moment, by whomever.
    pub migrated_pages: Option<u64>,
    /// Those of them that its NUMA balancing migrated.
    pub balancing_pages: Option<u64>,
    /// Time since the last moment in which some task was stalled for lack of memory.
    pub stalled_ns: Option<u64>,
    /// The share of accesses that were local, if each thread uses all memory of its process alike.
    pub local_ppm: Option<u64>,
}

/// A process that was followed.
#[derive(Clone, Debug, Serialize)]
pub struct FollowedProcess {
    /// Its pid.
    pub pid: Pid,
    /// Its name.
    #[serde(flatten, serialize_with = "in_json")]
    pub name: Name,
    /// The start time in clock ticks after the boot, which tells it from another with its pid.
    pub started_ticks: u64,
    /// When it was first seen.
    pub began_ns: u64,
    /// When it was no longer there.
    pub ended_ns: Option<u64>,
    /// CPU time while it was watched, by node, in nanoseconds.
    pub cpu_ns: ByNode,
    /// Its threads by node when it was seen last.
    pub threads: ByNode,
    /// Where its memory was, whenever that was looked at.
    pub looks: Vec<MemoryLook>,
    /// Why the last look at its memory failed.
    pub obstacle: Option<String>,
    /// What it would gain, by its CPU time of the last moments and the last look.
    pub gain: Option<RankedProcess>,
}

/// Where the memory of a process was at one moment, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MemoryLook {
    /// When.
    pub at_ns: u64,
    /// All that was looked at, by node.
    pub bytes: ByNode,
    /// The same by kind of mapping; of the one process that is watched.
    pub kinds: BTreeMap<MappingKind, ByNode>,
}

/// Processes that were not followed: small ones, and those beyond the limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct UnfollowedProcesses {
    /// How many.
    pub processes: u64,
    /// Their memory that is not of files.
    pub bytes: u64,
}

/// What a running balancer decided.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SeenDecisions {
    /// What it had decided last about each process that has a home.
    pub last: BTreeMap<Pid, AgentDecision>,
    /// Decisions that differed from the ones before.
    pub changes: Vec<DecisionChange>,
    /// Further ones, beyond the limit.
    pub left_out: u64,
    /// Whether it stood back because another balancer is active.
    pub stands_back: bool,
    /// Why nothing is known of it.
    pub obstacle: Option<String>,
}

/// A decision that differs from the one before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DecisionChange {
    /// When it was seen.
    pub at_ns: u64,
    /// The decision.
    #[serde(flatten)]
    pub decision: AgentDecision,
}

/// A decision of a running balancer, as its agent tells it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AgentDecision {
    /// The process.
    pub pid: Pid,
    /// Its name.
    pub name: String,
    /// What is done about its home.
    pub verdict: String,
    /// Why.
    pub reason: String,
    /// Why threads stay away.
    pub threads_reason: Option<String>,
    /// Why memory moves or stays.
    pub memory_reason: Option<String>,
    /// Where its threads belong.
    pub home: Option<Vec<NodeId>>,
}

impl From<WireDecision> for AgentDecision {
    fn from(wire: WireDecision) -> Self {
        let WireDecision { pid, name, verdict, reason, .. } = wire;
        let WireDecision { threads_reason, memory_reason, home, .. } = wire;
        Self { pid, name, verdict, reason, threads_reason, memory_reason, home }
    }
}

/// Something that could not be seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unseen {
    /// What.
    pub what: String,
    /// Why, and what would help.
    pub why: String,
}

impl FollowedProcess {
    /// Returns its memory by node when it was looked at last.
    pub fn memory(&self) -> Option<&ByNode> {
        self.looks.last().map(|look| &look.bytes)
    }

    /// Returns the most memory that any look found, in bytes.
    pub fn most_bytes(&self) -> u64 {
        self.looks.iter().map(|look| sum(&look.bytes)).max().unwrap_or(0)
    }
}

impl WatchReport {
    /// Returns the process that was watched, unless all were.
    pub fn process(&self) -> Option<&FollowedProcess> {
        self.processes.iter().find(|process| Some(process.pid) == self.subject)
    }

    /// Returns the memory that is away from the CPUs that use it, in bytes.
    pub fn misplaced_bytes(&self) -> u64 {
        let gains = self.processes.iter().filter_map(|process| process.gain.as_ref());
        gains.map(|gain| gain.misplaced_bytes).sum()
    }
}

/// Returns the sum over all nodes.
pub fn sum(by_node: &ByNode) -> u64 {
    by_node.values().fold(0, |sum, &value| sum.saturating_add(value))
}

/// Returns the share of accesses that are local, in ppm, if each thread uses all memory alike:
/// for each node the product of its parts of the CPU time and of the memory. `None` without either.
pub fn local_share_ppm(cpu_ns: &ByNode, bytes: &ByNode) -> Option<u64> {
    let (cpu, memory) = (u128::from(sum(cpu_ns)), u128::from(sum(bytes)));
    let on = |node: &NodeId| u128::from(bytes.get(node).copied().unwrap_or(0));
    let local = cpu_ns
        .iter()
        .map(|(node, &ns)| (u128::from(ns) * 1_000_000 / cpu.max(1)) * on(node) / memory.max(1));
    (cpu > 0 && memory > 0).then(|| u64::try_from(local.sum::<u128>()).unwrap_or(1_000_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by_node(amounts: [u64; 2]) -> ByNode {
        [(NodeId(0), amounts[0]), (NodeId(1), amounts[1])].into()
    }

    /// Goal: the local share is what a thread finds on its node if it uses all memory alike.
    #[test]
    fn a_share_is_local() {
        let share = |cpu, bytes| local_share_ppm(&by_node(cpu), &by_node(bytes));
        assert_eq!(share([1, 0], [3, 1]), Some(750_000));
        assert_eq!(share([1, 1], [3, 1]), Some(500_000)); // 1/2 x 3/4 + 1/2 x 1/4
        assert_eq!(share([0, 7], [5, 0]), Some(0));
        assert_eq!((share([0, 0], [3, 1]), share([1, 0], [0, 0])), (None, None));
        assert_eq!(share([u64::MAX, 1], [u64::MAX, 1]), Some(1_000_000));
    }
}
