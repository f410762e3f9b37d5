//! Groups of threads and memory, which the agent of nodeward places as one.

use std::collections::BTreeMap;
use std::env;
use std::io;
use std::path::{Path, PathBuf};
use std::process;
use std::thread;
use std::time::{Duration, Instant};

use nodeward_call::{AGENT_SOCKET, ConnectionError, ErrorReply, ServiceConnection};
use nodeward_linux::process_lookup;
use nodeward_model::{Escape as _, GroupError, GroupHome, GroupName, NodeId, Nodemask, Pid, Range};
use serde_json::{Value, json};

use crate::Region;

/// The variable that names another socket than that of the system's agent.
const SOCKET_VARIABLE: &str = "NODEWARD_SOCKET";
/// Time for an answer. The agent does nothing here that takes a second, but others may be before
/// us.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);
/// Time before a busy agent is asked again, at first and at most.
const BUSY_WAIT_MIN: Duration = Duration::from_millis(1);
const BUSY_WAIT_MAX: Duration = Duration::from_millis(64);
/// The root of /proc of the running kernel.
const ROOT: &str = "/";

/// An agent that a program asks for groups, by the socket that `nodeward balance` serves. Each call
/// opens a connection, so all threads may call at once, and a child of fork(2) speaks for itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupAgent {
    socket: PathBuf,
}

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

/// The reasons for which the agent did not do what was asked. Nothing was done, unless the error is
/// [`GroupFailure::Lost`].
#[derive(Debug, thiserror::Error)]
pub enum GroupFailure {
    /// A name, a home or memory that is none.
    #[error(transparent)]
    Invalid(#[from] GroupError),
    /// Memory that no address space has.
    #[error("{bytes} bytes from {start:#x} are no memory; give its address and its length")]
    NoMemory {
        /// The first address.
        start: usize,
        /// The length in bytes.
        bytes: usize,
    },
    /// Nobody answers at the socket.
    #[error(
        "no agent answers at {}; start `nodeward balance` with balance.socket set to that, or name \
         another in NODEWARD_SOCKET",
        socket.escaped()
    )]
    NoAgent {
        /// The path of the socket.
        socket: PathBuf,
        /// The error of connect(2).
        source: io::Error,
    },
    /// The socket may not be used.
    #[error("{} may not be used; balance.socket-mode and -group say who may", socket.escaped())]
    NoAccess {
        /// The path of the socket.
        socket: PathBuf,
        /// The error of connect(2).
        source: io::Error,
    },
    /// The agent ended meanwhile, or did not answer within 30 seconds.
    #[error("the agent did not answer; ask it again what it has done")]
    Lost(#[source] io::Error),
    /// The group has ended, or belongs to another user.
    #[error("there is no group {id} of yours, or no longer; make another")]
    NoSuchGroup {
        /// The number of the group.
        id: u32,
    },
    /// The thread does not exist, or has ended.
    #[error("there is no thread {tid}, or no longer; name one that runs")]
    NoSuchThread {
        /// The number of the thread, as gettid(2) returns it.
        tid: u32,
    },
    /// The process may not be touched; the words say why.
    #[error("{0}")]
    NotAllowed(String),
    /// There are as many groups, or pieces of memory in them, as there may be; the words say which.
    #[error("{0}")]
    LimitReached(String),
    /// The agent has had too many requests of this user for 30 seconds.
    #[error("{0}")]
    Busy(String),
    /// The machine failed, or cannot do it; the words say which.
    #[error("{0}")]
    Failed(String),
    /// Another refusal, or an answer that this version does not understand.
    #[error("the agent answered '{}'; it may be of another version", .0.escaped())]
    Strange(String),
}

impl Default for GroupAgent {
    /// The agent that the variable NODEWARD_SOCKET names, or that of the system
    /// (/run/nodeward/nodeward.sock).
    fn default() -> Self {
        let named = env::var_os(SOCKET_VARIABLE).filter(|socket| !socket.is_empty());
        Self { socket: named.map_or_else(|| AGENT_SOCKET.into(), PathBuf::from) }
    }
}

impl GroupAgent {
    /// Returns the agent at a socket. No connection is made before the first call.
    pub fn at(socket: &Path) -> Self {
        Self { socket: socket.to_owned() }
    }

    /// Makes a group without members. Names need not be unique; they have 1 to 64 letters, digits,
    /// `.`, `_` and `-`.
    ///
    /// # Errors
    /// `Invalid` for the name, `LimitReached` for a user's 257th group, and those of every call:
    /// `NoAgent`, `NoAccess`, `Busy`, `Lost`, `Strange`.
    pub fn make(&self, name: &str, home: &GroupHome) -> Result<Group, GroupFailure> {
        let name: GroupName = name.parse()?;
        let reply = self.call("Create", &json!({ "name": name, "home": home.to_string() }))?;
        let id = number(&reply["group"]).ok_or_else(|| GroupFailure::Strange(reply.to_string()))?;
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
        let asked = json!({ "pid": process_of(tid)?, "thread": tid });
        Ok(number(&self.call("GroupOf", &asked)?["group"]))
    }

    /// Returns the nodes where the memory of groups belongs by the last round: `None` for a group
    /// without a home. Groups that have ended are left out.
    pub(crate) fn memory_nodes_of(
        &self,
        groups: &[u32],
    ) -> Result<BTreeMap<u32, Option<Nodemask>>, GroupFailure> {
        let reply = self.call("NodesOf", &json!({ "groups": groups }))?;
        let group = |group: &Value| Some((number(&group["group"])?, nodes(&group["memory_nodes"])));
        Ok(reply["groups"].as_array().into_iter().flatten().filter_map(group).collect())
    }

    /// Where it is.
    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    fn call(&self, method: &str, parameters: &Value) -> Result<Value, GroupFailure> {
        self.request(&format!("io.nodeward.Groups.{method}"), parameters)
    }

    /// Calls a method of any interface.
    pub(crate) fn request(&self, method: &str, parameters: &Value) -> Result<Value, GroupFailure> {
        let until = Instant::now() + TIMEOUT;
        let mut wait = BUSY_WAIT_MIN;
        loop {
            let reply = ServiceConnection::open(&self.socket, TIMEOUT)
                .and_then(|mut connection| connection.call(method, parameters.clone()));
            match reply.map_err(|error| self.told(error)) {
                // All threads of a program may call at once, but few requests of a user may wait.
                Err(GroupFailure::Busy(_)) if Instant::now() < until => thread::sleep(wait),
                end => return end,
            }
            wait = (wait * 2).min(BUSY_WAIT_MAX);
        }
    }

    /// Returns what a failure of a call means.
    pub(crate) fn told(&self, error: ConnectionError) -> GroupFailure {
        let socket = self.socket.clone();
        match error {
            ConnectionError::NobodyAnswers(source) => GroupFailure::NoAgent { socket, source },
            ConnectionError::NoAccess(source) => GroupFailure::NoAccess { socket, source },
            ConnectionError::Lost(source) => GroupFailure::Lost(source),
            ConnectionError::NoReply(words) => GroupFailure::Strange(words),
            ConnectionError::Refused(reply) => reply.into(),
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
        self.call("SetHome", &json!({ "group": self.id, "home": home.to_string() }))
    }

    /// Puts the calling thread into the group.
    ///
    /// # Errors
    /// `NoSuchGroup`, and those of every call.
    pub fn add_current_thread(&self) -> Result<(), GroupFailure> {
        let tid = rustix::thread::gettid().as_raw_nonzero();
        self.call("AddThreads", &json!({ "group": self.id, "threads": [tid] }))
    }

    /// Puts a thread into the group (as gettid(2) numbers it), of this process or of another that
    /// the caller may touch.
    ///
    /// # Errors
    /// `NoSuchThread`, `NotAllowed`, `NoSuchGroup`, and those of every call.
    pub fn add_thread(&self, tid: u32) -> Result<(), GroupFailure> {
        let pid = process_of(tid)?;
        self.call("AddThreads", &json!({ "group": self.id, "pid": pid, "threads": [tid] }))
    }

    /// Puts all threads of this process into the group, also those that it will start. A thread
    /// that is put into another group by its number is in that one.
    ///
    /// # Errors
    /// `NoSuchGroup`, and those of every call.
    pub fn add_all_threads(&self) -> Result<(), GroupFailure> {
        self.call("AddThreads", &json!({ "group": self.id }))
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
        let memory = [addresses(start, bytes)?];
        self.call("AddMemory", &json!({ "group": self.id, "memory": memory }))
    }

    /// Puts memory into the group that this process moves itself. The agent counts that memory and
    /// does not move it.
    pub(crate) fn add_self_moved(&self, start: usize, bytes: usize) -> Result<(), GroupFailure> {
        let memory = [addresses(start, bytes)?];
        let parameters = json!({ "group": self.id, "memory": memory, "self_moved": true });
        self.call("AddMemory", &parameters)
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
        let reply = self.agent.call("NodesOf", &json!({ "groups": [self.id] }))?;
        let own = reply["groups"].as_array().and_then(|groups| groups.first());
        Ok(nodes(&own.ok_or(GroupFailure::NoSuchGroup { id: self.id })?["nodes"]))
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
        self.call("Delete", &json!({ "group": self.id }))
    }

    fn call(&self, method: &str, parameters: &Value) -> Result<(), GroupFailure> {
        self.agent.call(method, parameters).map(|_| ())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A child of fork(2) has a copy of this, but the group is its parent's.
        if self.owner == Some(process::id()) {
            // It ends with its members in any case.
            let _ = self.call("Delete", &json!({ "group": self.id }));
        }
    }
}

impl From<ErrorReply> for GroupFailure {
    fn from(ErrorReply { error, parameters }: ErrorReply) -> Self {
        let message = parameters["message"].as_str().map(str::to_owned);
        let in_words = || message.unwrap_or_else(|| format!("{error} {parameters}"));
        match error.as_str() {
            "io.nodeward.Groups.NoSuchGroup" => {
                Self::NoSuchGroup { id: number(&parameters["group"]).unwrap_or_default() }
            }
            "io.nodeward.Agent.NotAllowed" if parameters["reason"] == "no-such-process" => {
                Self::NoSuchThread { tid: number(&parameters["pid"]).unwrap_or_default() }
            }
            "io.nodeward.Agent.NotAllowed" => Self::NotAllowed(in_words()),
            "io.nodeward.Groups.LimitReached" => Self::LimitReached(in_words()),
            "io.nodeward.Agent.Failed" | "io.nodeward.Moves.NothingMoved" => {
                Self::Failed(in_words())
            }
            "io.nodeward.Agent.Busy" | "io.nodeward.Agent.TooMany" => Self::Busy(in_words()),
            _ => Self::Strange(in_words()),
        }
    }
}

fn number(value: &Value) -> Option<u32> {
    value.as_u64().and_then(|number| u32::try_from(number).ok())
}

fn nodes(value: &Value) -> Option<Nodemask> {
    let nodes = value.as_array()?;
    Some(nodes.iter().filter_map(number).map(NodeId).collect())
}

/// Returns memory of this process in the words of the interface.
fn addresses(start: usize, bytes: usize) -> Result<String, GroupFailure> {
    let end = start.checked_add(bytes).ok_or(GroupFailure::NoMemory { start, bytes })?;
    Ok(Range::new(start as u64, end as u64).to_string())
}

fn process_of(tid: u32) -> Result<Pid, GroupFailure> {
    let process = Pid::new(tid).ok().and_then(|it| process_lookup::by_thread(Path::new(ROOT), it));
    process.ok_or(GroupFailure::NoSuchThread { tid })
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixListener;
    use std::thread;

    use super::*;

    /// An agent that says one thing to one caller; returns what that asked.
    fn agent(reply: &'static str) -> (tempfile::TempDir, GroupAgent, thread::JoinHandle<String>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let serve = move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut heard = [0; 4096];
            let length = stream.read(&mut heard).unwrap();
            stream.write_all(reply.as_bytes()).unwrap();
            String::from_utf8_lossy(&heard[..length]).into_owned()
        };
        (folder, GroupAgent::at(&path), thread::spawn(serve))
    }

    fn answered(reply: &'static str) -> GroupFailure {
        let (_folder, agent, server) = agent(reply);
        let failure = agent.open(7).set_home(&GroupHome::Auto).unwrap_err();
        server.join().unwrap();
        failure
    }

    /// Goal: what an agent answers that does not do what it was asked is told apart, also what no
    /// agent of this version says.
    #[test]
    fn refusals_are_told_apart() {
        let refused = answered(
            "{\"error\":\"io.nodeward.Groups.NoSuchGroup\",\"parameters\":{\"group\":7}}\0",
        );
        assert!(matches!(refused, GroupFailure::NoSuchGroup { id: 7 }), "{refused}");
        let refused = answered(
            "{\"error\":\"io.nodeward.Agent.NotAllowed\",\
             \"parameters\":{\"reason\":\"other-user\",\"message\":\"no\"}}\0",
        );
        assert!(matches!(refused, GroupFailure::NotAllowed(words) if words == "no"));
        let refused = answered("{\"error\":\"io.nodeward.Groups.LimitReached\"}\0");
        assert!(matches!(refused, GroupFailure::LimitReached(words) if words.contains("Limit")));
        let old = answered("{\"error\":\"org.varlink.service.MethodNotFound\"}\0");
        assert!(matches!(old, GroupFailure::Strange(_)) && old.to_string().contains("version"));
        assert!(matches!(answered("hello\0"), GroupFailure::Strange(words) if words == "hello"));
        assert!(matches!(answered(""), GroupFailure::Lost(_)));
    }

    /// Goal: only the process that made a group deletes it; a child's copy asks nobody.
    #[test]
    fn a_copy_in_a_child_deletes_nothing() {
        let (_folder, agent, server) = agent("{}\0");
        drop(Group { agent: agent.clone(), id: 1, owner: Some(process::id() + 1) });
        drop(agent.open(2));
        drop(Group { agent, id: 3, owner: Some(process::id()) });
        let heard = server.join().unwrap();
        assert!(heard.contains("Groups.Delete") && heard.contains("\"group\":3"), "{heard}");
    }
}
