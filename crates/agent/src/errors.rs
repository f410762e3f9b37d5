//! Errors of the protocol, on both sides.

use nodeward_machine::Error;
use nodeward_model::Pid;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use varlink::Reply;

use crate::authority::Refusal;

/// The kinds of failure of a process or of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// The process has exited.
    Gone,
    /// The process is a kernel thread.
    KernelThread,
    /// The agent lacks a privilege.
    Denied,
    /// The machine lacks the operation.
    Unsupported,
    /// Any failure that is none of these.
    Failed,
}

/// An error reply. Its names and fields are those of the interface files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "error", content = "parameters")]
#[allow(missing_docs, reason = "the interface files document the fields")]
pub enum CallError {
    /// The caller may not touch the process.
    #[error("{message}")]
    #[serde(rename = "io.nodeward.Agent.NotAllowed")]
    NotAllowed { pid: u32, reason: Refusal, message: String },
    /// A limit is reached for now.
    #[error("{message}")]
    #[serde(rename = "io.nodeward.Agent.Busy")]
    Busy { message: String },
    /// Too many connections.
    #[error("{message}")]
    #[serde(rename = "io.nodeward.Agent.TooMany")]
    TooMany { message: String },
    /// A message that is too long, no JSON, or late.
    #[error("{message}")]
    #[serde(rename = "io.nodeward.Agent.BadMessage")]
    BadMessage { message: String },
    /// The machine failed.
    #[error("{message}")]
    #[serde(rename = "io.nodeward.Agent.Failed")]
    Failed { kind: FailureKind, message: String },
    /// The machine failed before a page was moved.
    #[error("{message}")]
    #[serde(rename = "io.nodeward.Moves.NothingMoved")]
    NothingMoved { kind: FailureKind, message: String },
    /// No move of this user has this number.
    #[error("there is no move {move_id} of yours; its account is kept for ten minutes")]
    #[serde(rename = "io.nodeward.Moves.NoSuchMove")]
    NoSuchMove {
        #[serde(rename = "move")]
        move_id: u64,
    },
    /// Nothing of this user can be taken back by this number.
    #[error(
        "there is no operation {undo} that you can take back: it is not in the ledger, has not \
         ended, or none of its processes is there and yours"
    )]
    #[serde(rename = "io.nodeward.Moves.NoSuchOperation")]
    NoSuchOperation { undo: u64 },
    /// The move has not ended.
    #[error("move {move_id} has not ended yet")]
    #[serde(rename = "io.nodeward.Moves.StillRunning")]
    StillRunning {
        #[serde(rename = "move")]
        move_id: u64,
    },
    /// No group of this user has this number.
    #[error("there is no group {group} of yours")]
    #[serde(rename = "io.nodeward.Groups.NoSuchGroup")]
    NoSuchGroup { group: u32 },
    /// There are as many groups or members as there may be.
    #[error("{message}")]
    #[serde(rename = "io.nodeward.Groups.LimitReached")]
    LimitReached { message: String },
    /// A parameter is missing, unknown or out of range.
    #[error("the agent does not take the parameter {parameter}")]
    #[serde(rename = "org.varlink.service.InvalidParameter")]
    InvalidParameter { parameter: String },
    /// The interface has no method of this name.
    #[error("the agent has no method {method}; it may be of another version")]
    #[serde(rename = "org.varlink.service.MethodNotFound")]
    MethodNotFound { method: String },
    /// The interface is not known.
    #[error("the agent has no interface {interface}; it may be of another version")]
    #[serde(rename = "org.varlink.service.InterfaceNotFound")]
    InterfaceNotFound { interface: String },
    /// The agent never upgrades a connection to a protocol that is not varlink.
    #[error("the agent does not implement that of {method}")]
    #[serde(rename = "org.varlink.service.MethodNotImplemented")]
    MethodNotImplemented { method: String },
}

impl CallError {
    /// Returns the refusal of a process that the caller named.
    pub fn not_allowed(pid: Pid, reason: Refusal) -> Self {
        let message = match reason {
            Refusal::NoSuchThread => format!("thread {pid}: {}", reason.advice()),
            _ => format!("process {pid} is not yours to move or look at: {}", reason.advice()),
        };
        Self::NotAllowed { pid: pid.number(), reason, message }
    }

    /// Returns a limit that is reached.
    pub fn busy(message: impl Into<String>) -> Self {
        Self::Busy { message: message.into() }
    }

    /// Returns a limit of groups.
    pub fn limit_reached(message: impl Into<String>) -> Self {
        Self::LimitReached { message: message.into() }
    }

    /// Returns the error for a parameter that is refused, with the reason in it.
    pub fn invalid(parameter: impl Into<String>) -> Self {
        Self::InvalidParameter { parameter: parameter.into() }
    }

    /// Returns the failure of a machine with a process, which the caller knows as `pid`.
    pub fn failed(error: &Error, pid: Pid) -> Self {
        let (kind, message) = failure(error, pid);
        Self::Failed { kind, message }
    }

    /// Returns the failure of a move that did nothing, of a process that the caller knows as `pid`.
    pub fn nothing_moved(error: &Error, pid: Pid) -> Self {
        let (kind, message) = failure(error, pid);
        Self::NothingMoved { kind, message }
    }

    /// Returns the reply.
    pub fn reply(&self) -> Reply {
        let value = serde_json::to_value(self).unwrap_or_default();
        let name = value["error"].as_str().unwrap_or_default().to_owned();
        Reply::error(name, value.get("parameters").cloned())
    }

    /// Returns the error that a reply is; `Err` with its name if we do not know it.
    pub fn from_reply(name: &str, parameters: Option<Value>) -> Result<Self, String> {
        let parameters = parameters.unwrap_or_default();
        let value = serde_json::json!({ "error": name, "parameters": parameters });
        serde_json::from_value(value).map_err(|_| name.to_owned())
    }
}

/// Only errors without a pid of ours in them are passed on as they are.
fn failure(error: &Error, pid: Pid) -> (FailureKind, String) {
    let (kind, told) = match error {
        Error::Gone(_) => (FailureKind::Gone, Error::Gone(pid).to_string()),
        Error::KernelThread(_) => (FailureKind::KernelThread, Error::KernelThread(pid).to_string()),
        Error::Denied { remedy, .. } => {
            (FailureKind::Denied, format!("the agent may not touch process {pid}: {remedy}"))
        }
        Error::Unsupported { action, .. } => {
            (FailureKind::Unsupported, format!("{action} is not available for process {pid}"))
        }
        _ => (FailureKind::Failed, format!("the agent failed at process {pid}")),
    };
    tracing::debug!(%error, "a request failed");
    (kind, told)
}
