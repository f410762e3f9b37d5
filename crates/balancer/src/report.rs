//! The report of a round: state, decisions and results.

use std::collections::BTreeMap;

use nodeward_machine::AccessSourceKind;
use nodeward_model::name::in_json;
use nodeward_model::{Account, GroupName, Name, NodeId, OtherBalancer, Pid, SegmentId, SkipReason};
use nodeward_policy::placement::{Decision, Home, NodeSum, SegmentDecision};
use serde::Serialize;

use super::called_groups::GroupNumber;
use super::settings::RivalMode;
use super::totals::Totals;

/// CPU time of the balancer, in nanoseconds, by what it was for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Cost {
    /// Snapshots of all processes, and samples of the residency of some.
    pub looking_ns: u64,
    /// Reading the accesses of processes that are wider than a node.
    pub observing_ns: u64,
    /// Making the decision.
    pub deciding_ns: u64,
    /// Moving threads and memory, with the sample after a move.
    pub moving_ns: u64,
}

/// The report of one round.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RoundReport {
    /// The number of the round, from 1 since the start.
    pub round: u64,
    /// Time at which the round began, by the machine's clock, in nanoseconds.
    pub at_ns: u64,
    /// Duration of the round, in nanoseconds.
    pub took_ns: u64,
    /// Time from the beginning of this round to that of the next, in nanoseconds.
    pub interval_ns: u64,
    /// True for a fast round, which only brought back threads that strayed and has no rows of
    /// processes.
    #[serde(rename = "patrol")]
    pub fast: bool,
    /// True if no move is left to make and no wait is running.
    pub settled: bool,
    /// True if the round acted; otherwise it only reports what it would do.
    pub acted: bool,
    /// True if the balancer stands back because another one is active. Then no round acts, only
    /// some look at processes, and those report what they would do otherwise.
    pub stands_back: bool,
    /// Each process, in ascending order of pids.
    pub processes: Vec<ProcessRow>,
    /// Each group that has members, in the order of the groups' numbers.
    pub groups: Vec<GroupRow>,
    /// Each segment that several processes map, in the order of their ids.
    pub segments: Vec<SegmentRow>,
    /// Load and memory of each node, now and as planned.
    pub nodes: BTreeMap<NodeId, NodeSum>,
    /// Threads that were nudged to a node.
    pub nudged: u64,
    /// Base pages that moved.
    pub moved_pages: u64,
    /// Bytes in a base page.
    pub page_bytes: u64,
    /// Threads that the snapshot has.
    pub threads: u64,
    /// Processes whose residency was sampled.
    pub looked: u64,
    /// Processes whose residency sample is due but left to a later round.
    pub look_later: u64,
    /// Other balancers that are active now.
    pub rivals: Vec<OtherBalancer>,
    /// The balancer's mode while other balancers are active.
    pub rival_mode: RivalMode,
    /// The source that observes processes that are wider than a node, while there are such.
    pub access_source: Option<AccessSourceKind>,
    /// The reason for which no source observes processes that are wider than a node, and the
    /// remedy.
    pub access_obstacle: Option<String>,
    /// CPU time of this round.
    pub cost: Cost,
    /// CPU time of all rounds.
    pub total_cost: Cost,
    /// Notices: messages that are given once, not in each round.
    pub news: Vec<Notice>,
    /// What all rounds did, this one included.
    #[serde(skip)]
    pub totals: Totals,
}

/// One process of a round.
#[derive(Clone, Debug, Serialize)]
pub struct ProcessRow {
    /// The pid of the process.
    pub pid: Pid,
    /// The name of the process, as the kernel keeps it (15 bytes).
    #[serde(flatten, serialize_with = "in_json")]
    pub name: Name,
    /// The home of the process.
    pub home: Option<Home>,
    /// The decision about the process, with its reasons and numbers.
    #[serde(flatten)]
    pub decision: Decision,
    /// Number of the process's pages with counted accesses in this period; `None` if accesses are
    /// not counted.
    pub counted_pages: Option<u64>,
    /// True if verdict, home or a reason differ from those of the last round, and in the first
    /// round of the process.
    pub changed: bool,
    /// Number of threads, by the node on which they ran last.
    pub threads: BTreeMap<NodeId, u32>,
    /// The process's own memory by node in the last sample, in base pages; empty if it was never
    /// sampled.
    pub pages: BTreeMap<NodeId, u64>,
    /// Time of that sample, by the machine's clock.
    pub pages_at_ns: Option<u64>,
    /// The segments that the process and others map. Their memory is not in `pages`.
    pub segments: Vec<SegmentId>,
    /// The results for the process.
    pub done: Done,
}

/// A group of a round.
#[derive(Clone, Debug, Serialize)]
pub struct GroupRow {
    /// The name of the group.
    pub name: GroupName,
    /// The number of the group, if calls made it.
    pub called: Option<GroupNumber>,
    /// The home of the group.
    pub home: Option<Home>,
    /// The decision about the group, with its reasons and numbers.
    #[serde(flatten)]
    pub decision: Decision,
    /// True if verdict, home or a reason differ from those of the last round, and in the first
    /// round of the group.
    pub changed: bool,
    /// The processes with threads or memory in the group.
    pub processes: Vec<Pid>,
    /// Number of threads, by the node on which they ran last.
    pub threads: BTreeMap<NodeId, u32>,
    /// The group's memory by node in the last samples, in base pages, without segments.
    #[serde(rename = "pages_by_node")]
    pub residency: BTreeMap<NodeId, u64>,
    /// The results for the group.
    pub done: Done,
}

/// A segment of a round.
#[derive(Clone, Debug, Serialize)]
pub struct SegmentRow {
    /// The path of the segment, as mappings have it.
    #[serde(flatten, serialize_with = "in_json")]
    pub name: Name,
    /// Bytes of the segment that the process maps that maps most of it.
    pub bytes: u64,
    /// Number of processes that map the segment, as far as is known.
    pub mappers: u64,
    /// The decision about the segment, with its reason and numbers.
    #[serde(flatten)]
    pub decision: SegmentDecision,
    /// True if the reason differs from that of the last round, and in the first round of the
    /// segment.
    pub changed: bool,
    /// The segment's memory by node in the last sample, in base pages.
    #[serde(rename = "pages_by_node")]
    pub residency: BTreeMap<NodeId, u64>,
    /// Time of the last sample, by the machine's clock.
    pub pages_at_ns: u64,
    /// The results for the segment's pages. A segment has no threads.
    pub done: Done,
}

/// The results of a round for one process, and the reasons for which they differ from the plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Done {
    /// Threads that are on the nodes to which they were sent.
    pub threads_placed: u32,
    /// Threads whose affinity does not allow the node.
    pub threads_not_allowed: u32,
    /// Threads whose affinity another program changed at the same time.
    pub threads_changed: u32,
    /// Threads that sleep, and move when they wake.
    pub threads_asleep: u32,
    /// Threads that ended before they could be moved.
    pub threads_gone: u32,
    /// Base pages that were planned to move in this round.
    pub pages_planned: u64,
    /// Base pages that moved.
    pub pages_moved: u64,
    /// Base pages left for the next rounds.
    pub pages_pending: u64,
    /// Base pages that could not be moved, by reason.
    pub pages_skipped: BTreeMap<SkipReason, u64>,
    /// The reason for which fewer pages moved than were planned.
    pub short: Option<Short>,
    /// Base pages away from home, by the sample after the move.
    pub pages_away_after: Option<u64>,
    /// The result of a move that ended in this round.
    pub outcome: Option<Outcome>,
}

impl Done {
    /// Returns the threads and base pages that a round brought home. If it did not act, those that
    /// it would, by the decision.
    pub fn brought(&self, decision: &Decision, acted: bool) -> (u32, u64) {
        match acted {
            true => (self.threads_placed, self.pages_moved),
            false => (decision.numbers.threads_nudged, decision.numbers.pages_planned),
        }
    }
}

/// The result of a memory move, over all rounds that it took.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Outcome {
    /// Base pages that were planned to move, by the samples.
    pub pages_planned: u64,
    /// Base pages that moved.
    pub pages_moved: u64,
    /// Base pages that were to move and stayed, by reason.
    pub pages_stayed: BTreeMap<SkipReason, u64>,
    /// The reason, other than those of `pages_stayed`, for which fewer pages moved than were
    /// planned.
    pub short: Option<Short>,
}

impl Outcome {
    /// Adds the result of another move.
    pub(super) fn add(&mut self, planned: u64, account: &Account, short: Option<Short>) {
        self.pages_planned += planned;
        self.pages_moved += account.moved;
        for (&reason, &pages) in &account.skipped {
            *self.pages_stayed.entry(reason).or_default() += pages;
        }
        self.short = self.short.or(short);
    }
}

/// The reasons for which fewer pages moved than were planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Short {
    /// The budget of the round is used up; the next round continues.
    Budget,
    /// The destination is short of memory.
    Pressure,
    /// Tasks stall for want of memory; the move continues when that ends.
    Stalled,
    /// Moving turned out to cost more than it gains.
    TooDear,
    /// Some pages cannot be moved; the skip reasons say why.
    Refused,
    /// The pages were no longer where the sample saw them, or were freed.
    NotThere,
    /// The process ended or called exec.
    Gone,
    /// The home has changed, or the process is left alone now.
    NotWanted,
    /// The balancer was asked to stop.
    Interrupted,
    /// The machine refused; a notice says why.
    Failed,
}

impl Short {
    /// Returns its name in output and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Budget => "budget",
            Self::Pressure => "pressure",
            Self::Stalled => "stalled",
            Self::TooDear => "too-dear",
            Self::Refused => "refused",
            Self::NotThere => "not-there",
            Self::Gone => "gone",
            Self::NotWanted => "not-wanted",
            Self::Interrupted => "interrupted",
            Self::Failed => "failed",
        }
    }
}

/// The reasons for which there is no decision about a process yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Undecided {
    /// The process does not exist, is not wanted, or may not be read.
    NotThere,
    /// The process was looked at only once, so its load is unknown.
    NoLoad,
    /// The residency of the process was not sampled yet; other processes come first.
    NotLookedInto,
    /// The process has hardly run since the last look.
    Idle,
}

/// A message that is given once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Notice {
    /// Processes that we may not read or change.
    Denied {
        /// The processes.
        pids: Vec<Pid>,
        /// The missing privilege, and how to grant it.
        need: String,
    },
    /// Another balancer became active.
    RivalCame {
        /// The other balancer.
        rival: OtherBalancer,
    },
    /// Another balancer is no longer active.
    RivalLeft {
        /// The other balancer.
        rival: OtherBalancer,
    },
    /// A node came online.
    NodeCame {
        /// The node.
        node: NodeId,
    },
    /// A node went offline.
    NodeLeft {
        /// The node.
        node: NodeId,
    },
    /// The ledger cannot be written; moves go on without it.
    Ledger {
        /// The error, and what to do.
        error: String,
    },
    /// The state cannot be saved; after a kill the balancer would begin anew.
    State {
        /// The error, and what to do.
        error: String,
    },
    /// An operation on a process failed.
    Failed {
        /// The process.
        pid: Pid,
        /// The error, and what to do.
        error: String,
    },
    /// Spread processes that no source of accesses observes: their pages stay where they are. Given
    /// once for each.
    NoAccessSource {
        /// The spread processes.
        pids: Vec<Pid>,
        /// The reason for which the first source does not work, and the remedy.
        obstacle: String,
    },
    /// Threads that members of groups start do not join them, as it is not known who starts whom.
    StartsUnseen {
        /// The remedy.
        remedy: String,
    },
    /// Records of threads that started or ended were lost. Some of these threads may be in no
    /// group.
    StartsLost {
        /// Number of lost records.
        records: u64,
    },
    /// Looks cost more than the CPU budget, so there are fewer of them.
    LookingSlowed {
        /// Factor by which the time between two rounds is longer now.
        factor: u32,
    },
    /// The scheduler that placed threads no longer runs. From now on they are nudged.
    SchedulerEnded {
        /// Why.
        reason: String,
    },
    /// Homes of threads found no room in the scheduler: it treats them as threads without one.
    SchedulerFull {
        /// How many.
        threads: u64,
    },
}

impl Notice {
    /// Returns the name of its kind, as in JSON.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Denied { .. } => "denied",
            Self::RivalCame { .. } => "rival-came",
            Self::RivalLeft { .. } => "rival-left",
            Self::NodeCame { .. } => "node-came",
            Self::NodeLeft { .. } => "node-left",
            Self::Ledger { .. } => "ledger",
            Self::State { .. } => "state",
            Self::Failed { .. } => "failed",
            Self::NoAccessSource { .. } => "no-access-source",
            Self::StartsUnseen { .. } => "starts-unseen",
            Self::StartsLost { .. } => "starts-lost",
            Self::LookingSlowed { .. } => "looking-slowed",
            Self::SchedulerEnded { .. } => "scheduler-ended",
            Self::SchedulerFull { .. } => "scheduler-full",
        }
    }
}
