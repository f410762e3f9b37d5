//! The calls about groups, whoever answers them.

use std::collections::BTreeMap;
use std::fmt;

use nodeward_model::{GroupHome, GroupName, Nodemask, Range};

use crate::GroupFailure;

/// Places groups of threads and memory: the agent at a socket, or a balancer in this process.
///
/// Groups are known by numbers, which are not used again.
pub trait GroupService: fmt::Debug + Send + Sync {
    /// Makes a group without members; returns its number.
    ///
    /// # Errors
    /// `LimitReached` if there are too many, and what keeps the service from answering.
    fn make_group(&self, name: GroupName, home: &GroupHome) -> Result<u32, GroupFailure>;

    /// Sets where a group is to be, from the next round on.
    ///
    /// # Errors
    /// `NoSuchGroup`, and what keeps the service from answering.
    fn set_home(&self, group: u32, home: &GroupHome) -> Result<(), GroupFailure>;

    /// Puts threads into a group.
    ///
    /// # Errors
    /// `NoSuchGroup`, `NoSuchThread`, `NotAllowed`, and what keeps the service from answering.
    fn add_threads(&self, group: u32, threads: Threads) -> Result<(), GroupFailure>;

    /// Puts addresses of this process into a group, widened to whole pages. With `self_moved` the
    /// service counts them and leaves moving them to the caller.
    ///
    /// # Errors
    /// `NoSuchGroup`, `LimitReached`, and what keeps the service from answering.
    fn add_memory(&self, group: u32, memory: Range, self_moved: bool) -> Result<(), GroupFailure>;

    /// Returns the group of a thread; `None` if it is in none that was made by calls.
    ///
    /// # Errors
    /// `NoSuchThread`, `NotAllowed`, and what keeps the service from answering.
    fn group_of(&self, tid: u32) -> Result<Option<u32>, GroupFailure>;

    /// Returns where groups belong by the last round. Groups that have ended are left out.
    ///
    /// # Errors
    /// What keeps the service from answering.
    fn nodes_of(&self, groups: &[u32]) -> Result<BTreeMap<u32, GroupNodes>, GroupFailure>;

    /// Deletes a group.
    ///
    /// # Errors
    /// `NoSuchGroup`, and what keeps the service from answering.
    fn delete(&self, group: u32) -> Result<(), GroupFailure>;
}

/// Threads that are put into a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// The calling thread.
    Current,
    /// The thread with this number, as gettid(2) returns it.
    One(u32),
    /// All threads of this process, also those that it will start.
    All,
}

/// The nodes of a group; `None` as long as no round has given it a home.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupNodes {
    /// The nodes where the threads of the group belong.
    pub threads: Option<Nodemask>,
    /// The nodes where the memory of the group belongs.
    pub memory: Option<Nodemask>,
}
