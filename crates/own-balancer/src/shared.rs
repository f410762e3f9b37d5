//! What the thread of the balancer and the callers share.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use nodeward::{GroupFailure, GroupNodes};
use nodeward_balancer::{ProcessKey, RoundReport, SharedGroups};
use nodeward_model::{OtherBalancer, Pid};
use nodeward_mover::MoveControl;

/// What a balancer in this process has done so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnStatus {
    /// Rounds so far. There are none while there is no group.
    pub rounds: u64,
    /// Base pages that moved so far. Pages that a pager moved do not count.
    pub moved_pages: u64,
    /// Other balancers that were active in the last round.
    pub rivals: Vec<OtherBalancer>,
    /// Whether the last round did nothing because of them.
    pub stands_back: bool,
    /// Why threads that members start do not join their groups; `None` if they do.
    pub starts_unseen: Option<String>,
    /// Why no more rounds are made; `None` as long as they are. Groups stay where they are.
    pub ended: Option<String>,
}

/// What the thread and the callers share.
pub struct OwnShared {
    /// The process that has the thread, as groups know it.
    pub key: ProcessKey,
    /// Bytes of a base page.
    pub page_bytes: u64,
    /// The groups, which each round reads.
    pub called: Arc<SharedGroups>,
    /// Ends a move under way.
    pub live: MoveControl,
    /// Wakes the thread.
    pub wake: Condvar,
    state: Mutex<OwnState>,
}

/// What happened, and what is to happen.
#[derive(Default)]
pub struct OwnState {
    /// What was done so far.
    pub status: OwnStatus,
    /// Where groups belong by the last round.
    pub nodes: BTreeMap<u32, GroupNodes>,
    /// Whether the thread is to end.
    pub is_over: bool,
    /// Whether there are groups.
    pub has_groups: bool,
}

impl OwnShared {
    /// Shares groups of this process.
    pub fn new(key: ProcessKey, page_bytes: u64, called: Arc<SharedGroups>) -> Self {
        Self {
            key,
            page_bytes,
            called,
            live: MoveControl::default(),
            wake: Condvar::new(),
            state: Mutex::default(),
        }
    }

    /// Returns whether this is the process that has the thread, and not a child of it, which may
    /// find locks taken for ever.
    pub fn is_here(&self) -> bool {
        self.key.0 == Pid::of_this_process()
    }

    /// Locks the state, in the process that has the thread.
    pub fn lock(&self) -> MutexGuard<'_, OwnState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks that rounds are made.
    ///
    /// # Errors
    /// `Failed` in a child of fork(2), and after the thread has ended.
    pub fn check(&self) -> Result<(), GroupFailure> {
        if !self.is_here() {
            let words = "the balancer is that of the parent process; start one in this process";
            return Err(GroupFailure::Failed(words.to_owned()));
        }
        match &self.lock().status.ended {
            None => Ok(()),
            Some(why) => Err(GroupFailure::Failed(format!("the balancer has ended: {why}"))),
        }
    }

    /// Enters the report of a round.
    pub fn note(&self, report: &RoundReport) {
        let starts_unseen = self.called.lock().starts_refusal().map(str::to_owned);
        let row = |row: &nodeward_balancer::GroupRow| {
            let home = row.home.as_ref();
            let (threads, memory) =
                (home.map(|home| home.thread_nodes()), home.map(|home| home.memory_nodes()));
            Some((row.called?, GroupNodes { threads, memory }))
        };
        let mut state = self.lock();
        if !report.fast {
            state.nodes = report.groups.iter().filter_map(row).collect();
        }
        let status = &mut state.status;
        status.rounds += 1;
        status.moved_pages += report.moved_pages;
        status.rivals.clone_from(&report.rivals);
        (status.stands_back, status.starts_unseen) = (report.stands_back, starts_unseen);
    }
}
