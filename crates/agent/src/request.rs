//! The request of a client, checked as far as the check needs no machine.

use std::collections::BTreeSet;

use nodeward_model::{GroupError, GroupHome, GroupName, MappingKind, MemorySelector, Pid};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::errors::CallError;
use crate::limits::{MEMBERS_MAX, PROCESSES_MAX, RANGES_MAX, WORKERS_MAX};
use crate::wire::{AddressRange, Order};

/// A request of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientRequest {
    /// The call of the request, or the error of its parameters.
    pub call: Result<Call, CallError>,
    /// Several replies are wanted.
    pub more: bool,
    /// No reply is wanted.
    pub oneway: bool,
}

/// A method with its parameters, by the names of the interface files.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the interface files document them")]
pub enum Call {
    GetInfo,
    GetInterfaceDescription { interface: String },
    Describe,
    Plan(Order),
    Start(Order),
    Progress { number: u64 },
    Cancel { number: u64 },
    Account { number: u64 },
    Show(ShowParameters),
    SavePlacement(SaveParameters),
    Homes,
    Explain { pid: Option<Pid> },
    ReadMetrics,
    CreateGroup(GroupParameters),
    SetGroupHome(GroupHomeParameters),
    AddGroupThreads(GroupThreads),
    AddGroupMemory(GroupMemory),
    GroupOf(ThreadParameters),
    NodesOfGroups(GroupList),
    DeleteGroup { group: u32 },
    ListGroups,
}

/// Parameters of io.nodeward.Groups.Create.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the interface file documents them")]
pub struct GroupParameters {
    pub name: GroupName,
    #[serde(default)]
    pub home: Option<GroupHomeText>,
}

/// Parameters of io.nodeward.Groups.SetHome.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the interface file documents them")]
pub struct GroupHomeParameters {
    pub group: u32,
    pub home: GroupHomeText,
}

/// Parameters of io.nodeward.Groups.AddThreads.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the interface file documents them")]
pub struct GroupThreads {
    pub group: u32,
    #[serde(default)]
    pub pid: Option<Pid>,
    #[serde(default)]
    pub threads: Option<Vec<Pid>>,
}

/// Parameters of io.nodeward.Groups.AddMemory.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the interface file documents them")]
pub struct GroupMemory {
    pub group: u32,
    #[serde(default)]
    pub pid: Option<Pid>,
    pub memory: Vec<GroupMemoryText>,
    #[serde(default)]
    pub self_moved: Option<bool>,
}

/// Parameters of io.nodeward.Groups.NodesOf.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the interface file documents them")]
pub struct GroupList {
    pub groups: Vec<u32>,
}

/// Parameters of io.nodeward.Groups.GroupOf.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the interface file documents them")]
pub struct ThreadParameters {
    #[serde(default)]
    pub pid: Option<Pid>,
    #[serde(default)]
    pub thread: Option<Pid>,
}

/// The home of a group, in the words of the interface.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct GroupHomeText(pub GroupHome);

/// Memory of a group, in the words of the interface.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct GroupMemoryText(pub MemorySelector);

impl TryFrom<String> for GroupHomeText {
    type Error = GroupError;

    fn try_from(text: String) -> Result<Self, GroupError> {
        text.parse().map(Self)
    }
}

impl TryFrom<String> for GroupMemoryText {
    type Error = GroupError;

    fn try_from(text: String) -> Result<Self, GroupError> {
        text.parse().map(Self)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GroupParameter {
    group: u32,
}

/// Parameters of io.nodeward.Residency.Show.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the interface file documents them")]
pub struct ShowParameters {
    #[serde(default)]
    pub pid: Option<Pid>,
    #[serde(default)]
    pub exact: Option<bool>,
    #[serde(default)]
    pub samples_min: Option<u64>,
    #[serde(default)]
    pub seed: Option<u64>,
    #[serde(default)]
    pub ranges: Option<Vec<AddressRange>>,
}

/// Parameters of io.nodeward.Placement.Save.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the interface file documents them")]
pub struct SaveParameters {
    #[serde(default)]
    pub pids: Option<Vec<Pid>>,
    #[serde(default)]
    pub kinds: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NoParameters {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InterfaceParameter {
    interface: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OrderParameter {
    order: Order,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MoveParameter {
    #[serde(rename = "move")]
    number: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PidParameter {
    #[serde(default)]
    pid: Option<Pid>,
}

impl ClientRequest {
    /// Parses a message.
    ///
    /// # Errors
    /// If it is no call of Varlink at all. An unknown method or a parameter that is not taken is in
    /// [`ClientRequest::call`], so that the connection can go on.
    pub fn parse(message: &[u8]) -> Result<Self, CallError> {
        let parsed = varlink::sansio::protocol::parse_request(message);
        let request = parsed.map_err(|_| CallError::BadMessage {
            message: "a message is no call: a JSON object with \"method\" is expected".to_owned(),
        })?;
        let call = match request.upgrade {
            Some(true) => Err(CallError::MethodNotImplemented { method: request.method.into() }),
            _ => Call::parse(&request.method, request.parameters.unwrap_or_else(|| json!({}))),
        };
        let is = |flag: Option<bool>| flag.unwrap_or(false);
        Ok(Self { call, more: is(request.more), oneway: is(request.oneway) })
    }
}

impl Call {
    fn parse(method: &str, given: Value) -> Result<Self, CallError> {
        let number = |given| parameters(given).map(|MoveParameter { number }| number);
        let none = |given| parameters(given).map(|NoParameters {}| ());
        let order = |given| parameters(given).and_then(|OrderParameter { order }| check(order));
        Ok(match method {
            "org.varlink.service.GetInfo" => none(given).map(|()| Self::GetInfo)?,
            "org.varlink.service.GetInterfaceDescription" => {
                let InterfaceParameter { interface } = parameters(given)?;
                Self::GetInterfaceDescription { interface }
            }
            "io.nodeward.Agent.Describe" => none(given).map(|()| Self::Describe)?,
            "io.nodeward.Moves.Plan" => Self::Plan(order(given)?),
            "io.nodeward.Moves.Start" => Self::Start(order(given)?),
            "io.nodeward.Moves.Progress" => Self::Progress { number: number(given)? },
            "io.nodeward.Moves.Cancel" => Self::Cancel { number: number(given)? },
            "io.nodeward.Moves.Account" => Self::Account { number: number(given)? },
            "io.nodeward.Residency.Show" => Self::Show(look(given)?),
            "io.nodeward.Placement.Save" => Self::SavePlacement(save(given)?),
            "io.nodeward.Placement.Homes" => none(given).map(|()| Self::Homes)?,
            "io.nodeward.Placement.Explain" => {
                let PidParameter { pid } = parameters(given)?;
                Self::Explain { pid }
            }
            "io.nodeward.Metrics.Read" => none(given).map(|()| Self::ReadMetrics)?,
            "io.nodeward.Groups.Create" => Self::CreateGroup(parameters(given)?),
            "io.nodeward.Groups.SetHome" => Self::SetGroupHome(parameters(given)?),
            "io.nodeward.Groups.AddThreads" => Self::AddGroupThreads(threads(given)?),
            "io.nodeward.Groups.AddMemory" => Self::AddGroupMemory(memory(given)?),
            "io.nodeward.Groups.GroupOf" => Self::GroupOf(parameters(given)?),
            "io.nodeward.Groups.NodesOf" => Self::NodesOfGroups(group_list(given)?),
            "io.nodeward.Groups.Delete" => {
                let GroupParameter { group } = parameters(given)?;
                Self::DeleteGroup { group }
            }
            "io.nodeward.Groups.List" => none(given).map(|()| Self::ListGroups)?,
            _ => return Err(CallError::MethodNotFound { method: method.to_owned() }),
        })
    }
}

fn parameters<T: DeserializeOwned>(given: Value) -> Result<T, CallError> {
    serde_json::from_value(given).map_err(|error| CallError::invalid(error.to_string()))
}

fn look(given: Value) -> Result<ShowParameters, CallError> {
    let look: ShowParameters = parameters(given)?;
    match problem_of_ranges(look.ranges.as_deref().unwrap_or_default()) {
        Some(problem) => Err(CallError::invalid(problem)),
        None => Ok(look),
    }
}

fn save(given: Value) -> Result<SaveParameters, CallError> {
    let save: SaveParameters = parameters(given)?;
    let (pids, kinds) = (save.pids.as_deref(), save.kinds.as_deref());
    let problem = problem_of_pids(pids.unwrap_or_default());
    match problem.or_else(|| problem_of_kinds(kinds.unwrap_or_default())) {
        Some(problem) => Err(CallError::invalid(problem)),
        None => Ok(save),
    }
}

/// Returns the kinds of these names; all if there are none.
pub fn named_kinds(names: Option<&[String]>) -> BTreeSet<MappingKind> {
    let named = |name: &String| MappingKind::ALL.into_iter().find(|kind| kind.name() == name);
    match names {
        Some(names) if !names.is_empty() => names.iter().filter_map(named).collect(),
        _ => MappingKind::ALL.into(),
    }
}

fn problem_of_pids(pids: &[Pid]) -> Option<String> {
    (pids.len() > PROCESSES_MAX).then(|| format!("pids: {PROCESSES_MAX} at most"))
}

fn problem_of_kinds(kinds: &[String]) -> Option<String> {
    let known = |name: &String| MappingKind::ALL.iter().any(|kind| kind.name() == name);
    let names = || MappingKind::ALL.map(MappingKind::name).join(", ");
    (!kinds.iter().all(known)).then(|| format!("kinds: known are {}", names()))
}

fn problem_of_ranges(ranges: &[AddressRange]) -> Option<String> {
    if ranges.len() > RANGES_MAX {
        return Some(format!("ranges: {RANGES_MAX} at most"));
    }
    let is_wrong = ranges.iter().any(|range| range.start >= range.end);
    is_wrong.then(|| "ranges: one ends before it begins".to_owned())
}

fn threads(given: Value) -> Result<GroupThreads, CallError> {
    let threads: GroupThreads = parameters(given)?;
    check_members("threads", threads.threads.as_ref().map_or(1, Vec::len))?;
    Ok(threads)
}

fn memory(given: Value) -> Result<GroupMemory, CallError> {
    let memory: GroupMemory = parameters(given)?;
    check_members("memory", memory.memory.len())?;
    let is_range = |one: &GroupMemoryText| matches!(one.0, MemorySelector::Range(_));
    if memory.self_moved == Some(true) && !memory.memory.iter().all(is_range) {
        let problem = "memory: a process moves addresses itself, no kinds or files";
        return Err(CallError::invalid(problem.to_owned()));
    }
    Ok(memory)
}

fn group_list(given: Value) -> Result<GroupList, CallError> {
    let list: GroupList = parameters(given)?;
    check_members("groups", list.groups.len())?;
    Ok(list)
}

fn check_members(name: &str, count: usize) -> Result<(), CallError> {
    match (1..=MEMBERS_MAX).contains(&count) {
        true => Ok(()),
        false => Err(CallError::invalid(format!("{name}: 1 to {MEMBERS_MAX} are taken"))),
    }
}

/// Checks the bounds of an order, and the words in the order.
fn check(order: Order) -> Result<Order, CallError> {
    let pids = order.pids.as_deref().unwrap_or_default();
    let ranges = order.ranges.as_deref().unwrap_or_default();
    let kinds = order.kinds.as_deref().unwrap_or_default();
    let undo_names = order.undo.is_some() && (pids.len(), ranges.len(), kinds.len()) != (0, 0, 0);
    let works = usize::from(!order.pairs.is_empty())
        + usize::from(order.spread.is_some())
        + usize::from(order.placement.is_some())
        + usize::from(order.undo.is_some());
    let problem = if works != 1 {
        Some("pairs, spread, placement, undo: one of them is wanted".to_owned())
    } else if undo_names {
        Some("undo: pids, kinds and ranges are those of the operation".to_owned())
    } else if order.spread.as_ref().is_some_and(|spread| spread.nodes.len() < 2) {
        Some("spread: two nodes at least".to_owned())
    } else if order.pairs.iter().any(|pair| pair.from == pair.to) {
        Some("pairs: a node is paired with itself".to_owned())
    } else if let Some(problem) = problem_of_pids(pids) {
        Some(problem)
    } else if let Some(problem) = problem_of_ranges(ranges) {
        Some(problem)
    } else if let Some(problem) = problem_of_kinds(kinds) {
        Some(problem)
    } else if order.jobs.is_some_and(|jobs| !(1..=WORKERS_MAX).contains(&jobs)) {
        Some(format!("jobs: 1 to {WORKERS_MAX}"))
    } else if order.rate == Some(0) || order.stall == Some(0) {
        Some("rate, stall: above 0".to_owned())
    } else {
        None
    };
    problem.map_or(Ok(order), |problem| Err(CallError::invalid(problem)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::interfaces::INTERFACES;

    fn call(text: &str) -> Result<Call, CallError> {
        ClientRequest::parse(text.as_bytes()).and_then(|request| request.call)
    }

    /// Goal: every method of the interface files is understood, and no other.
    #[test]
    fn the_methods_are_those_of_the_files() {
        for (name, text) in INTERFACES {
            let interface = zlink_idl::Interface::try_from(text).unwrap();
            for method in interface.methods() {
                let text = format!("{{\"method\":\"{name}.{}\"}}", method.name());
                let unknown = matches!(call(&text), Err(CallError::MethodNotFound { .. }));
                assert!(!unknown, "{text}");
            }
        }
        let unknown = call(r#"{"method":"io.nodeward.Moves.Undo"}"#);
        assert!(matches!(unknown, Err(CallError::MethodNotFound { .. })), "{unknown:?}");
    }

    /// Goal: an order outside its bounds is refused with the parameter and the bound.
    #[test]
    fn orders_have_bounds() {
        let order = |fields: &str| {
            let pairs = r#""pairs":[{"from":0,"to":1}]"#;
            let order = format!(r#"{{"order":{{{pairs}{fields}}}}}"#);
            call(&format!(r#"{{"method":"io.nodeward.Moves.Start","parameters":{order}}}"#))
        };
        assert!(order("").is_ok());
        assert!(order(r#","pids":[1,2],"kinds":["heap"],"stall":1000,"jobs":64"#).is_ok());
        for (fields, words) in [
            (r#","jobs":65"#, "1 to 64"),
            (r#","rate":0"#, "above 0"),
            (r#","kinds":["cake"]"#, "anonymous"),
            (r#","ranges":[{"start":2,"end":2}]"#, "ends before"),
            (r#","pids":[0]"#, "process id"),
            (r#","pids":[-1]"#, "-1"),
            (r#","pid":[1]"#, "unknown field"),
        ] {
            let refused = order(fields).unwrap_err().to_string();
            assert!(refused.contains(words), "{fields}: {refused}");
        }
        let many = vec!["1"; PROCESSES_MAX + 1].join(",");
        assert!(order(&format!(r#","pids":[{many}]"#)).is_err());
    }

    proptest! {
        /// Goal: any bytes are a call or refused.
        #[test]
        fn any_bytes_are_parsed(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = ClientRequest::parse(&bytes);
        }

        /// Goal: any parameters of any method are taken or refused with a reason.
        #[test]
        fn any_parameters_are_parsed(text in "[\\[\\]{}:,\"a-z0-9-]{0,60}", index in 0_usize..8) {
            let methods = [
                "Moves.Start",
                "Moves.Progress",
                "Residency.Show",
                "Placement.Explain",
                "Groups.Create",
                "Groups.AddThreads",
                "Groups.AddMemory",
                "Groups.NodesOf",
            ];
            let method = methods[index % methods.len()];
            let text = format!(r#"{{"method":"io.nodeward.{method}","parameters":{text}}}"#);
            if let Err(error) = call(&text) {
                prop_assert!(!error.to_string().is_empty());
            }
        }
    }
}
