//! Serves each request.

use std::sync::Arc;

use nodeward_machine::Machine;
use nodeward_model::Pid;
use serde::Serialize;
use serde_json::{Value, json};

use crate::caller::Caller;
use crate::errors::CallError;
use crate::gate;
use crate::groups::Groups;
use crate::hooks::Explainer;
use crate::interfaces;
use crate::limits::{
    CLIENT_TIMEOUT, CONNECTIONS_MAX, CONNECTIONS_OF_USER_MAX, MESSAGE_BYTES_MAX, MOVES_MAX,
    MoveLimits, PROCESSES_MAX,
};
use crate::looks;
use crate::metrics::{self, AgentTotals};
use crate::moves::{Moves, OrderedMove};
use crate::placement::Published;
use crate::reply;
use crate::request::{
    Call, ClientRequest, GroupHomeParameters, GroupList, GroupMemory, GroupParameters,
    GroupThreads, ThreadParameters,
};
use crate::request_counts::RequestCounts;

/// Everything that requests need.
pub struct Service {
    /// The machine.
    pub machine: Arc<dyn Machine>,
    /// The moves of all users.
    pub moves: Arc<Moves>,
    /// The groups that programs make.
    pub groups: Groups,
    /// The last round of the balancer.
    pub published: Published,
    /// Limits of the moves of each user.
    pub limits: MoveLimits,
    /// Puts decisions into words.
    pub explainer: Explainer,
    /// Processes that metrics name at most.
    pub metrics_processes: usize,
    /// The requests so far.
    pub requests: RequestCounts,
}

/// The reply of io.nodeward.Agent.Describe, by the names of the interface file.
#[derive(Serialize)]
struct Description {
    pid: Pid,
    uid: u32,
    gid: u32,
    everything: bool,
    limits: DescribedLimits,
}

#[derive(Serialize)]
struct DescribedLimits {
    message_bytes: usize,
    connections: usize,
    connections_of_user: usize,
    moves: usize,
    moves_of_user: usize,
    rate_of_user: Option<u64>,
    processes: usize,
    patience_ms: u64,
}

/// The answer to a request.
pub enum Answer {
    /// One reply, which ends the request, as it is sent.
    Reply(Vec<u8>),
    /// Progress replies about a move, until the move has ended.
    Watch(Arc<OrderedMove>),
}

/// The thread by which a request is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// By the thread of the server: it takes less than a millisecond.
    AtOnce,
    /// By the lane of what takes milliseconds: an order holds processes, and metrics are in files
    /// of the machine.
    Orders,
    /// By the lane of looks.
    Looks,
}

impl Service {
    /// Returns where a request is served.
    pub fn place(request: &ClientRequest) -> Place {
        match &request.call {
            Ok(Call::Start(_) | Call::ReadMetrics) => Place::Orders,
            Ok(Call::Plan(_) | Call::Show(_) | Call::SavePlacement(_) | Call::Homes) => {
                Place::Looks
            }
            Ok(Call::AddGroupThreads(_) | Call::AddGroupMemory(_)) => Place::Looks,
            Ok(Call::GroupOf(_) | Call::ListGroups) => Place::Looks,
            _ => Place::AtOnce,
        }
    }

    /// Serves a request.
    pub fn serve(&self, caller: &Caller, request: &ClientRequest) -> Answer {
        self.requests.add(&request.call);
        let served = match &request.call {
            Ok(Call::Progress { number }) if request.more => {
                self.moves.find(caller, *number).map(Answer::Watch)
            }
            Ok(call) => self.call(caller, call).map(Answer::Reply),
            Err(error) => Err(error.clone()),
        };
        served.unwrap_or_else(|error| {
            self.requests.add_refusal();
            Answer::Reply(reply::encode(&error.reply()))
        })
    }

    /// Returns what the agent did since it started.
    pub fn totals(&self) -> AgentTotals {
        let (requests, refusals) = self.requests.get();
        AgentTotals { requests, refusals, moves: self.moves.totals() }
    }

    /// Returns the metrics. Of the processes that they may name they name those that the caller may
    /// touch.
    fn metrics(&self, caller: &Caller) -> Value {
        let (report, totals) = (self.published.last(), self.totals());
        let rows = metrics::most_misplaced(&report, self.metrics_processes).into_iter();
        let named: Vec<_> =
            rows.filter_map(|row| Some((gate::shown_to(caller, row.pid)?, row))).collect();
        json!({ "text": metrics::text(&report, Some(&totals), &*self.machine, &named) })
    }

    fn call(&self, caller: &Caller, call: &Call) -> Result<Vec<u8>, CallError> {
        match call {
            Call::Describe => Ok(reply::encode_parameters(&self.describe(caller))),
            Call::Explain { pid } => reply::encode_with(|json| {
                self.published.explain(caller, *pid, self.explainer, json)
            }),
            call => Ok(reply::encode_parameters(&self.value_of(caller, call)?)),
        }
    }

    /// Returns what a call returns that is not asked often.
    fn value_of(&self, caller: &Caller, call: &Call) -> Result<Value, CallError> {
        match call {
            Call::GetInfo => Ok(interfaces::info()),
            Call::GetInterfaceDescription { interface } => interfaces::description(interface),
            Call::Plan(order) => self.moves.plan(caller, order).map(|plan| json!(plan)),
            Call::Start(order) => {
                self.moves.start(caller, order).map(|number| json!({ "move": number }))
            }
            Call::Progress { number } => {
                let record = self.moves.find(caller, *number)?;
                Ok(json!({ "progress": record.progress() }))
            }
            Call::Cancel { number } => {
                self.moves.find(caller, *number)?.cancel();
                Ok(json!({}))
            }
            Call::Account { number } => {
                self.moves.account(caller, *number).map(|report| named("report", &report))
            }
            Call::Show(wanted) => looks::show(&*self.machine, caller, wanted),
            Call::SavePlacement(wanted) => looks::save_placement(&*self.machine, caller, wanted),
            Call::Homes => Ok(self.published.homes(caller, self.machine.now_ns())),
            Call::ReadMetrics => Ok(self.metrics(caller)),
            call => self.group_call(caller, call),
        }
    }

    fn group_call(&self, caller: &Caller, call: &Call) -> Result<Value, CallError> {
        let groups = &self.groups;
        match call {
            Call::CreateGroup(GroupParameters { name, home }) => {
                let home = home.as_ref().map(|home| home.0.clone()).unwrap_or_default();
                let number = groups.add_group(caller, name.clone(), home)?;
                return Ok(json!({ "group": number }));
            }
            Call::SetGroupHome(GroupHomeParameters { group, home }) => {
                groups.set_home(caller, *group, home.0.clone())?;
            }
            Call::AddGroupThreads(GroupThreads { group, pid, threads }) => {
                groups.add_threads(caller, *group, *pid, threads.as_deref())?;
            }
            Call::AddGroupMemory(GroupMemory { group, pid, memory, self_moved }) => {
                let memory: Vec<_> = memory.iter().map(|one| one.0.clone()).collect();
                groups.add_memory(caller, *group, *pid, (&memory, *self_moved == Some(true)))?;
            }
            Call::GroupOf(ThreadParameters { pid, thread }) => {
                let group = groups.group_of(caller, *pid, *thread)?;
                return Ok(group.map_or_else(|| json!({}), |group| json!({ "group": group })));
            }
            Call::NodesOfGroups(GroupList { groups: numbers }) => {
                return Ok(groups.nodes_of(caller, numbers, &self.published.get()));
            }
            Call::DeleteGroup { group } => groups.delete(caller, *group)?,
            _ => return Ok(groups.list(caller, &self.published.get())),
        }
        Ok(json!({}))
    }

    fn describe(&self, caller: &Caller) -> Description {
        Description {
            pid: caller.own_pid(),
            uid: caller.user(),
            gid: caller.rights.group,
            everything: caller.rights.everything,
            limits: DescribedLimits {
                message_bytes: MESSAGE_BYTES_MAX,
                connections: CONNECTIONS_MAX,
                connections_of_user: CONNECTIONS_OF_USER_MAX,
                moves: MOVES_MAX,
                moves_of_user: self.limits.moves_of_user,
                rate_of_user: self.limits.rate_of_user,
                processes: PROCESSES_MAX,
                patience_ms: u64::try_from(CLIENT_TIMEOUT.as_millis()).unwrap_or(u64::MAX),
            },
        }
    }
}

fn named(name: &str, value: &impl Serialize) -> Value {
    json!({ name: value })
}
