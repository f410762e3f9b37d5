//! Groups of threads and memory, which the agent of nodeward places as one, or a balancer in this
//! process.

use std::collections::BTreeMap;
use std::path::Path;
use std::process;
use std::sync::Arc;

use nodeward_model::{GroupHome, Nodemask, Range};

use crate::agent_socket::AgentSocket;
use crate::group_service::{GroupNodes, GroupService, Threads};
use crate::{GroupFailure, Region};

/// Whom a program asks for groups: the agent, by the socket that `nodeward balance` serves, or a
/// balancer in this process. At the socket each call opens a connection, so all threads may call at
/// once, and a child of fork(2) speaks for itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupAgent(ServicePlace);

#[derive(Clone, Debug)]
enum ServicePlace {
    Socket(AgentSocket),
    InProcess(Arc<dyn GroupService>),
}

impl PartialEq for ServicePlace {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Socket(a), Self::Socket(b)) => a == b,
            (Self::InProcess(a), Self::InProcess(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }
}

impl Eq for ServicePlace {}

/// Threads and memory that belong together: the agent keeps them on the same nodes, and decides
/// about them apart from the rest of their processes. A thread and an address are in one group; the
/// last call wins.
///
/// The group is deleted when this is dropped, unless a child of fork(2) drops its copy, or
/// [`Group::leave`] was called. It ends by itself when its last thread has ended or left, and the
/// last process has ended whose memory is in it.
#[derive(Debug)]
pub struct Group {
    agent: GroupAgent,
    id: u32,
    /// The process whose drop deletes the group; `None` if no drop does.
    owner: Option<u32>,
}

impl Default for GroupAgent {
    /// The agent that the variable NODEWARD_SOCKET names, or that of the system
    /// (/run/nodeward/nodeward.sock).
    fn default() -> Self {
        Self(ServicePlace::Socket(AgentSocket::default()))
    }
}

impl GroupAgent {
    /// Returns the agent at a socket. No connection is made before the first call.
    pub fn at(socket: &Path) -> Self {
        Self(ServicePlace::Socket(AgentSocket(socket.to_owned())))
    }

    /// Returns a service of this process in place of an agent.
    pub fn in_process(service: Arc<dyn GroupService>) -> Self {
        Self(ServicePlace::InProcess(service))
    }

    /// Makes a group without members. Names need not be unique; they have 1 to 64 letters, digits,
    /// `.`, `_` and `-`.
    ///
    /// # Errors
    /// `Invalid` for the name, `LimitReached` for a user's 257th group, and those of every call:
    /// `NoAgent`, `NoAccess`, `Busy`, `Lost`, `Strange`; of a balancer in this process, `Failed` if
    /// it has ended or is the parent's.
    pub fn make(&self, name: &str, home: &GroupHome) -> Result<Group, GroupFailure> {
        let id = self.service().make_group(name.parse()?, home)?;
        Ok(Group { agent: self.clone(), id, owner: Some(process::id()) })
    }

    /// Returns a group by its number, which another part of the program or another process of the
    /// same user made. Dropping the result does not delete the group. The agent is not asked yet
    /// whether the group exists.
    pub fn open(&self, id: u32) -> Group {
        Group { agent: self.clone(), id, owner: None }
    }

    /// Returns the number of the group of a thread, of this process or of another that the caller
    /// may touch; `None` if it is in none that was made by calls.
    ///
    /// # Errors
    /// `NoSuchThread`, `NotAllowed`, and those of every call.
    pub fn group_of(&self, tid: u32) -> Result<Option<u32>, GroupFailure> {
        self.service().group_of(tid)
    }

    /// Returns where groups belong by the last round. Groups that have ended are left out.
    pub(crate) fn nodes_of(
        &self,
        groups: &[u32],
    ) -> Result<BTreeMap<u32, GroupNodes>, GroupFailure> {
        self.service().nodes_of(groups)
    }

    fn service(&self) -> &dyn GroupService {
        match &self.0 {
            ServicePlace::Socket(socket) => socket,
            ServicePlace::InProcess(service) => &**service,
        }
    }
}

impl Group {
    /// Makes a group at the default agent: [`GroupAgent::make`].
    ///
    /// # Errors
    /// Those of [`GroupAgent::make`].
    pub fn new(name: &str, home: &GroupHome) -> Result<Self, GroupFailure> {
        GroupAgent::default().make(name, home)
    }

    /// Returns the number of the group, by which [`GroupAgent::open`] finds the group. No other
    /// group gets this number.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Sets the nodes on which the group is to be, from the next round of the agent's balancer on.
    ///
    /// # Errors
    /// `NoSuchGroup`, and those of every call.
    pub fn set_home(&self, home: &GroupHome) -> Result<(), GroupFailure> {
        self.service().set_home(self.id, home)
    }

    /// Puts the calling thread into the group.
    ///
    /// # Errors
    /// `NoSuchGroup`, and those of every call.
    pub fn add_current_thread(&self) -> Result<(), GroupFailure> {
        self.service().add_threads(self.id, Threads::Current)
    }

    /// Puts a thread into the group (as gettid(2) numbers it), of this process or of another that
    /// the caller may touch.
    ///
    /// # Errors
    /// `NoSuchThread`, `NotAllowed`, `NoSuchGroup`, and those of every call.
    pub fn add_thread(&self, tid: u32) -> Result<(), GroupFailure> {
        self.service().add_threads(self.id, Threads::One(tid))
    }

    /// Puts all threads of this process into the group, also those that it will start. A thread
    /// that is put into another group by its number is in that one.
    ///
    /// # Errors
    /// `NoSuchGroup`, and those of every call.
    pub fn add_all_threads(&self) -> Result<(), GroupFailure> {
        self.service().add_threads(self.id, Threads::All)
    }

    /// Puts `bytes` bytes of this process's memory into the group, widened to whole pages. The
    /// group has these addresses, whatever is mapped there later. Does nothing for 0 bytes.
    ///
    /// # Errors
    /// `NoMemory`, `LimitReached` for too many pieces, `NoSuchGroup`, and those of every call.
    pub fn add_memory(&self, start: *const u8, bytes: usize) -> Result<(), GroupFailure> {
        let start = start.addr();
        if bytes == 0 {
            return Ok(());
        }
        self.service().add_memory(self.id, addresses(start, bytes)?, false)
    }

    /// Puts memory into the group that this process moves itself. The agent counts that memory and
    /// does not move it.
    pub(crate) fn add_self_moved(&self, start: usize, bytes: usize) -> Result<(), GroupFailure> {
        self.service().add_memory(self.id, addresses(start, bytes)?, true)
    }

    /// Puts the memory of a slice into the group. Other data on the slice's first and last page
    /// comes along.
    ///
    /// # Errors
    /// Those of [`Group::add_memory`].
    pub fn add_slice<T>(&self, slice: &[T]) -> Result<(), GroupFailure> {
        self.add_memory(slice.as_ptr().cast(), size_of_val(slice))
    }

    /// Puts all memory of a region into the group. The agent moves it by move_pages(2), as it moves
    /// any memory. With a [`HomeFollower`](crate::HomeFollower) the pager moves it instead.
    ///
    /// # Errors
    /// Those of [`Group::add_memory`].
    pub fn add_region(&self, region: &Region) -> Result<(), GroupFailure> {
        self.add_memory(region.as_ptr(), region.bytes())
    }

    /// Returns the nodes where the group's threads belong since the balancer's last round; `None`
    /// if the group has no home yet.
    ///
    /// # Errors
    /// `NoSuchGroup`, and those of every call.
    pub fn nodes(&self) -> Result<Option<Nodemask>, GroupFailure> {
        let nodes = self.agent.nodes_of(&[self.id])?.remove(&self.id);
        Ok(nodes.ok_or(GroupFailure::NoSuchGroup { id: self.id })?.threads)
    }

    /// Returns the agent that has the group.
    pub(crate) fn agent(&self) -> &GroupAgent {
        &self.agent
    }

    /// Leaves the group to its members, and returns the group's number. Dropping `self` then does
    /// not delete the group, which ends with its last member.
    pub fn leave(mut self) -> u32 {
        self.owner = None;
        self.id
    }

    /// Deletes the group, whoever made it. Its members belong to their processes again.
    ///
    /// # Errors
    /// `NoSuchGroup`, and those of every call.
    pub fn delete(mut self) -> Result<(), GroupFailure> {
        self.owner = None;
        self.service().delete(self.id)
    }

    fn service(&self) -> &dyn GroupService {
        self.agent.service()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A child of fork(2) has a copy of this, but the group is its parent's.
        if self.owner == Some(process::id()) {
            // It ends with its members in any case.
            let _ = self.service().delete(self.id);
        }
    }
}

/// Returns memory of this process as addresses.
fn addresses(start: usize, bytes: usize) -> Result<Range, GroupFailure> {
    let end = start.checked_add(bytes).ok_or(GroupFailure::NoMemory { start, bytes })?;
    Ok(Range::new(start as u64, end as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_agent;

    /// Goal: only the process that made a group deletes it; a child's copy asks nobody.
    #[test]
    fn a_copy_in_a_child_deletes_nothing() {
        let (_folder, socket, server) = test_agent::start(vec!["{}\0".to_owned()]);
        let agent = GroupAgent::at(&socket);
        drop(Group { agent: agent.clone(), id: 1, owner: Some(process::id() + 1) });
        drop(agent.open(2));
        drop(Group { agent, id: 3, owner: Some(process::id()) });
        let heard = server.join().unwrap()[0].to_string();
        assert!(heard.contains("Groups.Delete") && heard.contains("\"group\":3"), "{heard}");
    }
}
