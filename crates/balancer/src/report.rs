//! What a round saw, decided and did.

use std::collections::BTreeMap;

use nodeward_machine::AccessSourceKind;
use nodeward_model::name::in_json;
use nodeward_model::{Account, Name, NodeId, OtherBalancer, Pid, SkipReason};
use nodeward_policy::placement::{Decision, Home, NodeSum};
use serde::Serialize;

/// CPU time of the balancer, in nanoseconds, by what it was for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Cost {
    /// Snapshots of all processes, and samples of the residency of some.
    pub looking_ns: u64,
    /// Reading the accesses of processes that are wider than a node.
    pub observing_ns: u64,
    /// Deciding.
    pub deciding_ns: u64,
    /// Moving threads and memory, with the look after it that a move makes.
    pub moving_ns: u64,
}

/// What one round came to.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RoundReport {
    /// Its number, from 1 since the start.
    pub round: u64,
    /// When it began, by the machine's clock, in nanoseconds.
    pub at_ns: u64,
    /// How long it took, in nanoseconds.
    pub took_ns: u64,
    /// How long to wait from its beginning to the next round, in nanoseconds.
    pub interval_ns: u64,
    /// Whether it was a fast round between two rounds: only threads that strayed were brought back,
    /// and nothing is said of processes.
    #[serde(rename = "patrol")]
    pub fast: bool,
    /// Whether nothing is left to do and nothing waits for its time.
    pub settled: bool,
    /// Whether it acted, or only told what it would do.
    pub acted: bool,
    /// Whether somebody else balances and it stands back for that. Then a round that acts looks at
    /// no process, and one that only tells says what it would do otherwise.
    pub stands_back: bool,
    /// Each process, in ascending order of pids.
    pub processes: Vec<ProcessRow>,
    /// What each node has and would have.
    pub nodes: BTreeMap<NodeId, NodeSum>,
    /// Threads that were brought to a node.
    pub nudged: u64,
    /// Base pages that moved.
    pub moved_pages: u64,
    /// Bytes in a base page.
    pub page_bytes: u64,
    /// Threads that were seen.
    pub threads: u64,
    /// Processes whose residency was sampled.
    pub looked: u64,
    /// Processes that should have been sampled, and wait for a later round.
    pub look_later: u64,
    /// Who else moves memory or threads now.
    pub rivals: Vec<OtherBalancer>,
    /// The source that observes processes that are wider than a node, while there are such.
    pub access_source: Option<AccessSourceKind>,
    /// Why there is no such source though there are such processes, and the remedy.
    pub access_obstacle: Option<String>,
    /// What the round cost.
    pub cost: Cost,
    /// What all rounds cost.
    pub total_cost: Cost,
    /// What is said once and not in each round.
    pub news: Vec<Notice>,
}

/// One process of a round.
#[derive(Clone, Debug, Serialize)]
pub struct ProcessRow {
    /// Its pid.
    pub pid: Pid,
    /// Its name, as the kernel keeps it (15 bytes).
    #[serde(flatten, serialize_with = "in_json")]
    pub name: Name,
    /// Where it belongs.
    pub home: Option<Home>,
    /// What was decided about it, why, and from what.
    #[serde(flatten)]
    pub decision: Decision,
    /// Of how many of its pages it was counted by now who uses them, in this period; `None` where
    /// nothing counts that.
    pub counted_pages: Option<u64>,
    /// Whether verdict, home or a reason differ from the last round's; true in its first.
    pub changed: bool,
    /// Its threads by the node on which they ran last.
    pub threads: BTreeMap<NodeId, u32>,
    /// Its own memory by node as it was sampled last, in base pages; empty if it never was.
    pub pages: BTreeMap<NodeId, u64>,
    /// When that was, by the machine's clock.
    pub pages_at_ns: Option<u64>,
    /// What was done.
    pub done: Done,
}

/// What was done with one process, and why that is not what was planned.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Done {
    /// Threads that are where they were sent.
    pub threads_placed: u32,
    /// Threads that may not run there.
    pub threads_not_allowed: u32,
    /// Threads whose affinity somebody changed at the same time.
    pub threads_changed: u32,
    /// Threads that sleep, and go nowhere before they wake.
    pub threads_asleep: u32,
    /// Threads that ended meanwhile.
    pub threads_gone: u32,
    /// Base pages that were planned to move in this round.
    pub pages_planned: u64,
    /// Base pages that moved.
    pub pages_moved: u64,
    /// Base pages that are left for the next rounds.
    pub pages_pending: u64,
    /// Base pages that could not be moved, by reason.
    pub pages_skipped: BTreeMap<SkipReason, u64>,
    /// Why fewer pages moved than were planned.
    pub short: Option<Short>,
    /// Base pages that are away from home by a look after the move.
    pub pages_away_after: Option<u64>,
    /// What a move came to that ended in this round.
    pub outcome: Option<Outcome>,
}

/// What a move of memory came to, over all rounds that it took.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Outcome {
    /// Base pages that were planned to move, as far as samples told.
    pub pages_planned: u64,
    /// Base pages that moved.
    pub pages_moved: u64,
    /// Base pages that were to move and stayed, by reason.
    pub pages_stayed: BTreeMap<SkipReason, u64>,
    /// Why fewer moved than were planned, beside these.
    pub short: Option<Short>,
}

impl Outcome {
    /// Adds what came of another move.
    pub(super) fn add(&mut self, planned: u64, account: &Account, short: Option<Short>) {
        self.pages_planned += planned;
        self.pages_moved += account.moved;
        for (&reason, &pages) in &account.skipped {
            *self.pages_stayed.entry(reason).or_default() += pages;
        }
        self.short = self.short.or(short);
    }
}

/// Why fewer pages moved than were planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Short {
    /// The budget of the round was used up; the next round goes on.
    Budget,
    /// Memory is short where they should go.
    Pressure,
    /// Tasks stand still for want of memory; it goes on when that has ended.
    Stalled,
    /// Moving turned out to cost more than is gained.
    TooDear,
    /// Some pages cannot be moved: see the reasons.
    Refused,
    /// They were not where they had been seen, or were freed.
    NotThere,
    /// The process ended or called exec.
    Gone,
    /// The memory belongs elsewhere by now, or the process is left alone.
    NotWanted,
    /// The balancer was asked to stop.
    Interrupted,
    /// The machine refused; the news say why.
    Failed,
}

/// Why nothing is decided about a process yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Undecided {
    /// There is no such process, or it is not among those that are wanted, or we may not look at
    /// it.
    NotThere,
    /// There was no second look yet.
    NoLoad,
    /// Where its memory is was not looked at yet; others come first.
    NotLookedInto,
    /// It did not run since the last look, as good as.
    Idle,
}

/// What is said once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Notice {
    /// Processes that we may not look at or act on.
    Denied {
        /// Which.
        pids: Vec<Pid>,
        /// What would help.
        need: String,
    },
    /// Somebody else moves memory or threads, from now on.
    RivalCame {
        /// Who.
        rival: OtherBalancer,
    },
    /// They no longer do.
    RivalLeft {
        /// Who did.
        rival: OtherBalancer,
    },
    /// A node came online.
    NodeCame {
        /// Which.
        node: NodeId,
    },
    /// A node went offline.
    NodeLeft {
        /// Which.
        node: NodeId,
    },
    /// The ledger cannot be written; moves go on, and are not told there.
    Ledger {
        /// Why, and what to do.
        error: String,
    },
    /// What was learnt cannot be saved; after a kill the balancer would begin anew.
    State {
        /// Why, and what to do.
        error: String,
    },
    /// Something could not be done with a process.
    Failed {
        /// Which.
        pid: Pid,
        /// What, and what to do.
        error: String,
    },
    /// Looking costs more than it may, so that there is less of it.
    LookingSlowed {
        /// How much longer the time between two rounds is now, as a factor.
        factor: u32,
    },
}
