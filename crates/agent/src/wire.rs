//! Types of the protocol, as the interface files have them, and their conversion from and to the
//! types of the program.

use std::collections::BTreeMap;

use nodeward_balancer::MappedSegment;
use nodeward_machine::{Error, Liveness};
use nodeward_model::{Account, MappingKind, Name, NodeId, NodePairs, Pid, SegmentId};
use nodeward_mover::placement::FoundPlacement;
use nodeward_mover::{MoveReport, PlanReport, ProcessPlan, ProcessReport, Residue, StopReason};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Base pages by node.
pub type PageCounts = BTreeMap<NodeId, u64>;

/// `Pair` of the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WirePair {
    /// The node that gives.
    pub from: NodeId,
    /// The node that takes.
    pub to: NodeId,
}

/// `Spread` of the interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WireSpread {
    /// The nodes with their shares.
    pub nodes: Vec<WireShare>,
    /// How much memory stays together, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block: Option<u64>,
}

/// `Share` of the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WireShare {
    /// The node.
    pub node: NodeId,
    /// Its share, as a ratio to those of the others.
    pub weight: u32,
}

/// `Range` of the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AddressRange {
    /// The first address.
    pub start: u64,
    /// The address behind the last.
    pub end: u64,
}

/// `Order` of the interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Order {
    /// Processes; the caller if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pids: Option<Vec<Pid>>,
    /// Sources and destinations; none for `spread`, `placement` and `undo`.
    pub pairs: Vec<WirePair>,
    /// How to even the memory out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread: Option<WireSpread>,
    /// The saved placement to restore, as a document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<Value>,
    /// The operation to take back, by its number in the ledger of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undo: Option<u64>,
    /// Kinds of memory, by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kinds: Option<Vec<String>>,
    /// The addresses of pages to move; `None` for any address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ranges: Option<Vec<AddressRange>>,
    /// Shared mappings and segments of more bytes stay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skip_shared_above: Option<u64>,
    /// The rest of a mapping stays untried whose first pages are found pinned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skip_pinned: Option<bool>,
    /// Number of workers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jobs: Option<u32>,
    /// Limit of the rate, in bytes a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<u64>,
    /// Longest stall that the move may cause, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stall: Option<u64>,
}

impl Order {
    /// Returns the order that moves memory of the caller between nodes.
    pub fn between(pairs: &NodePairs) -> Self {
        let pairs = pairs.iter().map(|(from, to)| WirePair { from, to }).collect();
        Self { pairs, ..Self::default() }
    }
}

/// `Progress` of the interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the interface file documents the fields")]
pub struct WireProgress {
    pub running: bool,
    pub examined_bytes: u64,
    pub total_bytes: u64,
    pub moved_bytes: u64,
    pub workers: u32,
}

/// `ProcessReport` of the interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the interface file documents the fields")]
pub struct WireProcessReport {
    pub pid: Pid,
    pub account: Account,
    pub before: PageCounts,
    pub before_in_flight: u64,
    pub unexamined_bytes: u64,
    pub verified: bool,
    pub after: PageCounts,
    pub expected_on_source: u64,
    pub seen_on_source: u64,
    pub life: Life,
}

/// The state of a process at the end of its move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs, reason = "the interface file documents the words")]
pub enum Life {
    Running,
    Exited,
    Replaced,
}

/// `Report` of the interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the interface file documents the fields")]
pub struct WireReport {
    pub page_bytes: u64,
    pub processes: Vec<WireProcessReport>,
    pub moving_ns: u64,
    pub verifying_ns: u64,
    pub workers: u32,
    pub longest_hold_ns: Option<u64>,
    pub stall_needed_ns: Option<u64>,
    #[serde(default)]
    pub over_stall_pages: u64,
    pub interrupted: bool,
    pub error: Option<String>,
    pub ledger: Option<u64>,
    #[serde(default)]
    pub lacks_moves: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<FoundPlacement>,
}

/// `Member` of the interface of groups.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the interface file documents the fields")]
pub struct WireMember {
    pub pid: Pid,
    pub all_threads: bool,
    pub threads: Vec<u32>,
    pub memory: Vec<String>,
    #[serde(default)]
    pub self_moved: Vec<String>,
}

/// The reply to `List` of the interface of groups.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireGroups {
    /// The groups.
    pub groups: Vec<WireGroup>,
    /// The reason for which threads that members start may be missing in their groups, and the
    /// remedy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starts_unseen: Option<String>,
}

/// `Group` of the interface of groups.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the interface file documents the fields")]
pub struct WireGroup {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<u32>,
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub home: Option<String>,
    pub members: Vec<WireMember>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<Vec<NodeId>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub home_pages: Option<PageCounts>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads_reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads_brought: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pages_brought: Option<u64>,
    pub threads: BTreeMap<NodeId, u32>,
    pub pages: PageCounts,
}

/// `Decision` of the interface of placement.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[allow(missing_docs, reason = "the interface file documents the fields")]
pub struct WireDecision {
    pub pid: Pid,
    pub name: String,
    pub verdict: String,
    pub reason: String,
    pub threads_reason: Option<String>,
    pub memory_reason: Option<String>,
    pub home: Option<Vec<NodeId>>,
    pub home_pages: Option<PageCounts>,
    pub threads_brought: Option<u32>,
    pub pages_brought: Option<u64>,
    pub threads: BTreeMap<NodeId, u32>,
    pub pages: PageCounts,
    pub pages_age_ns: Option<u64>,
}

/// What `Homes` of the interface of placement returns.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[allow(missing_docs, reason = "the interface file documents the fields")]
pub struct WireHomes {
    pub round: u64,
    pub stands_back: bool,
    pub decisions: Vec<WireDecision>,
}

/// `Flow` of the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the interface file documents the fields")]
pub struct PageFlow {
    pub from: NodeId,
    pub to: NodeId,
    pub pages: u64,
}

/// `Folios` of the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the interface file documents the fields")]
pub struct Folios {
    pub pages: u32,
    pub count: u64,
}

/// `ProcessPlan` of the interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the interface file documents the fields")]
pub struct WireProcessPlan {
    pub pid: Pid,
    pub flows: Vec<PageFlow>,
    pub folios: Vec<Folios>,
    pub account: Account,
    pub residency: PageCounts,
    pub in_flight: u64,
}

/// The reply to `Plan`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the interface file documents the fields")]
pub struct WirePlan {
    pub page_bytes: u64,
    pub processes: Vec<WireProcessPlan>,
    #[serde(default)]
    pub lacks_moves: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<FoundPlacement>,
}

/// `Segment` of the interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the interface file documents the fields")]
pub struct WireSegment {
    pub major: u32,
    pub minor: u32,
    pub inode: u64,
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name_bytes: Option<Vec<u8>>,
    pub bytes: u64,
}

impl From<Liveness> for Life {
    fn from(life: Liveness) -> Self {
        match life {
            Liveness::Running => Self::Running,
            Liveness::Exited => Self::Exited,
            Liveness::Replaced => Self::Replaced,
        }
    }
}

impl From<Life> for Liveness {
    fn from(life: Life) -> Self {
        match life {
            Life::Running => Self::Running,
            Life::Exited => Self::Exited,
            Life::Replaced => Self::Replaced,
        }
    }
}

impl WireProcessReport {
    fn new(report: &ProcessReport, pid: Pid) -> Self {
        Self {
            pid,
            account: report.account.clone(),
            before: report.before.clone(),
            before_in_flight: report.before_in_flight,
            unexamined_bytes: report.unexamined_bytes,
            verified: report.verified,
            after: report.after.clone(),
            expected_on_source: report.residue.expected,
            seen_on_source: report.residue.seen,
            life: report.life.into(),
        }
    }
}

impl From<WireProcessReport> for ProcessReport {
    fn from(wire: WireProcessReport) -> Self {
        let residue = Residue { expected: wire.expected_on_source, seen: wire.seen_on_source };
        Self {
            pid: wire.pid,
            account: wire.account,
            before: wire.before,
            before_in_flight: wire.before_in_flight,
            unexamined_bytes: wire.unexamined_bytes,
            verified: wire.verified,
            after: wire.after,
            residue,
            life: wire.life.into(),
        }
    }
}

impl WireReport {
    /// Returns a report in which processes have the pids that the caller knows, in their order.
    pub fn new(report: &MoveReport, pids: &[Pid], page_bytes: u64) -> Self {
        let both = report.processes.iter().zip(pids);
        Self {
            page_bytes,
            processes: both.map(|(one, &pid)| WireProcessReport::new(one, pid)).collect(),
            moving_ns: report.moving_ns,
            verifying_ns: report.verifying_ns,
            workers: report.workers,
            longest_hold_ns: report.longest_hold_ns,
            stall_needed_ns: report.stall_needed_ns,
            over_stall_pages: report.over_stall_pages,
            interrupted: report.stopped.is_some(),
            // It may name a pid or a path of ours.
            error: report.error.as_ref().map(|error| match error {
                Error::Gone(_) => "a process is gone".to_owned(),
                _ => "the agent could not move some pages; its log says why".to_owned(),
            }),
            ledger: None,
            lacks_moves: false,
            found: None,
        }
    }
}

impl From<WireReport> for MoveReport {
    fn from(wire: WireReport) -> Self {
        let error = |words: String| Error::Syscall {
            call: "the move of the agent",
            source: std::io::Error::other(words),
        };
        Self {
            processes: wire.processes.into_iter().map(ProcessReport::from).collect(),
            moving_ns: wire.moving_ns,
            verifying_ns: wire.verifying_ns,
            workers: wire.workers,
            longest_hold_ns: wire.longest_hold_ns,
            stall_needed_ns: wire.stall_needed_ns,
            over_stall_pages: wire.over_stall_pages,
            stopped: wire.interrupted.then_some(StopReason::Requested),
            error: wire.error.map(error),
            ..Self::default()
        }
    }
}

impl WireProcessPlan {
    fn new(plan: &ProcessPlan, pid: Pid) -> Self {
        let flows = plan.moves.iter().map(|(&(from, to), &pages)| PageFlow { from, to, pages });
        let folios = plan.folios.iter().map(|(&pages, &count)| Folios { pages, count });
        Self {
            pid,
            flows: flows.collect(),
            folios: folios.collect(),
            account: plan.account.clone(),
            residency: plan.residency.clone(),
            in_flight: plan.in_flight,
        }
    }
}

impl From<WireProcessPlan> for ProcessPlan {
    fn from(wire: WireProcessPlan) -> Self {
        Self {
            moves: wire.flows.iter().map(|flow| ((flow.from, flow.to), flow.pages)).collect(),
            folios: wire.folios.iter().map(|folios| (folios.pages, folios.count)).collect(),
            account: wire.account,
            residency: wire.residency,
            in_flight: wire.in_flight,
        }
    }
}

impl WirePlan {
    /// Returns a plan in which processes have the pids that the caller knows, in their order.
    pub fn new(report: &PlanReport, pids: &[Pid], page_bytes: u64) -> Self {
        let both = report.processes.iter().zip(pids);
        let processes = both.map(|((_, plan), &pid)| WireProcessPlan::new(plan, pid)).collect();
        Self { page_bytes, processes, lacks_moves: false, found: None }
    }
}

impl From<WirePlan> for PlanReport {
    fn from(wire: WirePlan) -> Self {
        let one = |plan: WireProcessPlan| (plan.pid, plan.into());
        Self { processes: wire.processes.into_iter().map(one).collect() }
    }
}

impl From<&MappedSegment> for WireSegment {
    fn from(segment: &MappedSegment) -> Self {
        let SegmentId { major, minor, inode } = segment.id;
        let name_bytes = (!segment.name.is_text()).then(|| segment.name.as_bytes().to_vec());
        let name = String::from_utf8_lossy(segment.name.as_bytes()).into_owned();
        let bytes = segment.bytes;
        Self { major, minor, inode, name, name_bytes, bytes }
    }
}

impl From<WireSegment> for MappedSegment {
    fn from(wire: WireSegment) -> Self {
        let WireSegment { major, minor, inode, name, name_bytes, bytes } = wire;
        let name = name_bytes.map_or_else(|| Name::from(name.as_str()), |bytes| bytes.into());
        let id = SegmentId { major, minor, inode };
        Self { id, name, bytes, is_bound: false, kind: MappingKind::Shared, parts: Vec::new() }
    }
}
