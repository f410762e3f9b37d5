//! The agent at its socket.

use std::collections::BTreeMap;
use std::env;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use nodeward_call::{AGENT_SOCKET, ConnectionError, ErrorReply, ServiceConnection};
use nodeward_linux::process_lookup;
use nodeward_model::{GroupHome, GroupName, NodeId, Nodemask, Pid, Range};
use serde_json::{Value, json};

use crate::GroupFailure;
use crate::group_service::{GroupNodes, GroupService, Threads};

/// The variable that names another socket than that of the system's agent.
const SOCKET_VARIABLE: &str = "NODEWARD_SOCKET";
/// Time for an answer. The agent does nothing here that takes a second, but others may be before
/// us.
pub const TIMEOUT: Duration = Duration::from_secs(30);
/// Time before a busy agent is asked again, at first and at most.
const BUSY_WAIT_MIN: Duration = Duration::from_millis(1);
const BUSY_WAIT_MAX: Duration = Duration::from_millis(64);
/// The root of /proc of the running kernel.
const ROOT: &str = "/";

/// The agent at a socket. Each call opens a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentSocket(pub PathBuf);

impl Default for AgentSocket {
    /// The socket that the variable NODEWARD_SOCKET names, or that of the system.
    fn default() -> Self {
        let named = env::var_os(SOCKET_VARIABLE).filter(|socket| !socket.is_empty());
        Self(named.map_or_else(|| AGENT_SOCKET.into(), PathBuf::from))
    }
}

impl AgentSocket {
    fn call(&self, method: &str, parameters: &Value) -> Result<Value, GroupFailure> {
        self.request(&format!("io.nodeward.Groups.{method}"), parameters)
    }

    fn tell(&self, method: &str, parameters: &Value) -> Result<(), GroupFailure> {
        self.call(method, parameters).map(|_| ())
    }

    /// Calls a method of any interface.
    pub fn request(&self, method: &str, parameters: &Value) -> Result<Value, GroupFailure> {
        let until = Instant::now() + TIMEOUT;
        let mut wait = BUSY_WAIT_MIN;
        loop {
            let reply = ServiceConnection::open(&self.0, TIMEOUT)
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
    pub fn told(&self, error: ConnectionError) -> GroupFailure {
        let socket = self.0.clone();
        match error {
            ConnectionError::NobodyAnswers(source) => GroupFailure::NoAgent { socket, source },
            ConnectionError::NoAccess(source) => GroupFailure::NoAccess { socket, source },
            ConnectionError::Lost(source) => GroupFailure::Lost(source),
            ConnectionError::NoReply(words) => GroupFailure::Strange(words),
            ConnectionError::Refused(reply) => reply.into(),
        }
    }
}

impl GroupService for AgentSocket {
    fn make_group(&self, name: GroupName, home: &GroupHome) -> Result<u32, GroupFailure> {
        let reply = self.call("Create", &json!({ "name": name, "home": home.to_string() }))?;
        number(&reply["group"]).ok_or_else(|| GroupFailure::Strange(reply.to_string()))
    }

    fn set_home(&self, group: u32, home: &GroupHome) -> Result<(), GroupFailure> {
        self.tell("SetHome", &json!({ "group": group, "home": home.to_string() }))
    }

    fn add_threads(&self, group: u32, threads: Threads) -> Result<(), GroupFailure> {
        let parameters = match threads {
            Threads::All => json!({ "group": group }),
            Threads::Current => {
                json!({ "group": group, "threads": [rustix::thread::gettid().as_raw_nonzero()] })
            }
            Threads::One(tid) => {
                json!({ "group": group, "pid": process_of(tid)?, "threads": [tid] })
            }
        };
        self.tell("AddThreads", &parameters)
    }

    fn add_memory(&self, group: u32, memory: Range, self_moved: bool) -> Result<(), GroupFailure> {
        let mut parameters = json!({ "group": group, "memory": [memory.to_string()] });
        if self_moved {
            parameters["self_moved"] = json!(true);
        }
        self.tell("AddMemory", &parameters)
    }

    fn group_of(&self, tid: u32) -> Result<Option<u32>, GroupFailure> {
        let asked = json!({ "pid": process_of(tid)?, "thread": tid });
        Ok(number(&self.call("GroupOf", &asked)?["group"]))
    }

    fn nodes_of(&self, groups: &[u32]) -> Result<BTreeMap<u32, GroupNodes>, GroupFailure> {
        let reply = self.call("NodesOf", &json!({ "groups": groups }))?;
        let group = |group: &Value| {
            let (threads, memory) = (nodes(&group["nodes"]), nodes(&group["memory_nodes"]));
            Some((number(&group["group"])?, GroupNodes { threads, memory }))
        };
        Ok(reply["groups"].as_array().into_iter().flatten().filter_map(group).collect())
    }

    fn delete(&self, group: u32) -> Result<(), GroupFailure> {
        self.tell("Delete", &json!({ "group": group }))
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
            "io.nodeward.Agent.NotAllowed" if is_missing(&parameters["reason"]) => {
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

/// Returns whether this is the reason of a refusal for a process or a thread that is not there.
fn is_missing(reason: &Value) -> bool {
    reason == "no-such-process" || reason == "no-such-thread"
}

fn number(value: &Value) -> Option<u32> {
    value.as_u64().and_then(|number| u32::try_from(number).ok())
}

fn nodes(value: &Value) -> Option<Nodemask> {
    let nodes = value.as_array()?;
    Some(nodes.iter().filter_map(number).map(NodeId).collect())
}

fn process_of(tid: u32) -> Result<Pid, GroupFailure> {
    let process = Pid::new(tid).ok().and_then(|it| process_lookup::by_thread(Path::new(ROOT), it));
    process.ok_or(GroupFailure::NoSuchThread { tid })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_agent;

    fn answered(reply: &'static str) -> GroupFailure {
        let (_folder, socket, server) = test_agent::start(vec![reply.to_owned()]);
        let failure = AgentSocket(socket).set_home(7, &GroupHome::Auto).unwrap_err();
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
}
