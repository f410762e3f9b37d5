//! Decisions over the socket: that they have the fields of the interface, and what these say.

use std::collections::{BTreeMap, BTreeSet};

use nodeward_agent::client::Client;
use nodeward_agent::wire::{WireDecision, WireGroup};
use nodeward_balancer::{Done, GroupRow, ProcessRow, RoundReport};
use nodeward_model::{GroupHome, GroupName, NodeId, Pid};
use nodeward_policy::placement::{Decision, EntityId, Home, Reason, Verdict};
use serde_json::{Value, json};
use zlink_idl::{Interface, Type};

use crate::metrics_processes::row;
use crate::stage::{Conversation, Stage};

/// The names of the fields of a type in an interface file, those that may be left out apart.
fn fields(talk: &mut Conversation, interface: &str, name: &str) -> [BTreeSet<String>; 2] {
    let asked = json!({ "interface": interface });
    let reply = talk.call("org.varlink.service.GetInterfaceDescription", &asked);
    let text = reply["parameters"]["description"].as_str().unwrap();
    let interface = Interface::try_from(text).unwrap();
    let types = interface.custom_types();
    let found = types.filter_map(|one| one.as_object()).find(|one| *one.name() == name);
    let names = |is_optional: bool| {
        let fields = found.unwrap().fields();
        let fields = fields.filter(|field| matches!(field.ty(), Type::Optional(_)) == is_optional);
        fields.map(|field| field.name().to_string()).collect()
    };
    [false, true].map(names)
}

fn keys(value: &Value) -> BTreeSet<String> {
    value.as_object().unwrap().keys().cloned().collect()
}

/// A home with threads on node 1 and memory on 0 to 2.
fn interleaved() -> Home {
    Home::Interleave { threads: NodeId(1), memory: "0-2".parse().unwrap() }
}

/// This process at that home, with 7 pages on node 0 and 2 on node 3, in a round that brought 2
/// threads and 4 pages.
fn own_row() -> ProcessRow {
    let mut row = row(Pid::of_this_process(), "x", None, [7, 0]);
    row.home = Some(interleaved());
    row.pages = [(NodeId(0), 7), (NodeId(3), 2)].into();
    row.pages_at_ns = Some(0);
    (row.decision.threads, row.decision.memory) = (Some(Reason::HomeBusy), Some(Reason::Pays));
    row.done = Done { threads_placed: 2, pages_moved: 4, ..Done::default() };
    (row.decision.numbers.threads_nudged, row.decision.numbers.pages_planned) = (3, 5);
    row
}

fn decision(talk: &mut Conversation) -> Value {
    let mut reply = talk.call("io.nodeward.Placement.Homes", &json!({}));
    reply["parameters"]["decisions"][0].take()
}

/// Goal: a decision has all fields of the interface and no other; without a home it lacks those
/// that are about one.
#[test]
fn decisions_have_the_fields_of_the_interface() {
    let stage = Stage::new();
    let mut talk = stage.connect();
    let [always, optional] = fields(&mut talk, "io.nodeward.Placement", "Decision");
    let publish = |row| stage.agent.publish(&RoundReport { processes: vec![row], ..round() });
    publish(own_row());
    assert_eq!(keys(&decision(&mut talk)), &always | &optional);
    publish(row(Pid::of_this_process(), "x", None, [7, 0]));
    let brought = ["threads_brought", "pages_brought"].map(str::to_owned);
    assert_eq!(keys(&decision(&mut talk)), &always | &BTreeSet::from(brought));
}

fn round() -> RoundReport {
    RoundReport { round: 5, acted: true, page_bytes: 4096, ..RoundReport::default() }
}

/// Goal: a home is told with the nodes of threads, and the nodes of memory with the pages on each:
/// those on node 3 are not among them. What was brought is what was done, or, if the balancer
/// stands back, what was decided.
#[test]
fn homes_have_amounts_by_node() {
    let stage = Stage::new();
    let mut talk = stage.connect();
    let mut brought = |report: &RoundReport| {
        stage.agent.publish(report);
        let told = decision(&mut talk);
        assert_eq!(
            (&told["home"], &told["home_pages"]),
            (&json!([1]), &json!({"0": 7, "1": 0, "2": 0}))
        );
        [told["threads_brought"].clone(), told["pages_brought"].clone()]
    };
    let acted = RoundReport { processes: vec![own_row()], ..round() };
    assert_eq!(brought(&acted), [json!(2), json!(4)]);
    assert_eq!(
        brought(&RoundReport { acted: false, stands_back: true, ..acted }),
        [json!(3), json!(5)]
    );
    let homes = Client::connect(&stage.path()).unwrap().homes().unwrap();
    assert_eq!(homes.decisions[0].decided_home(), Some(interleaved()));
}

/// Goal: a group has the fields of the interface, and its home by nodes of threads and memory.
#[test]
fn groups_have_the_fields_of_the_interface() {
    let stage = Stage::new();
    let mut client = Client::connect(&stage.path()).unwrap();
    let name: GroupName = "kv".parse().unwrap();
    let number = client.create_group(&name, &GroupHome::Auto).unwrap();
    let decision = Decision::new(EntityId(1), Verdict::Stays, Reason::Bottleneck);
    let group = GroupRow {
        name,
        called: Some(number),
        home: Some(interleaved()),
        decision: Decision { threads: Some(Reason::Pays), memory: Some(Reason::Pays), ..decision },
        changed: false,
        processes: Vec::new(),
        threads: BTreeMap::new(),
        residency: [(NodeId(2), 9)].into(),
        done: Done::default(),
    };
    stage.agent.publish(&RoundReport { groups: vec![group], ..round() });
    let mut talk = stage.connect();
    let [always, optional] = fields(&mut talk, "io.nodeward.Groups", "Group");
    let told = &talk.call("io.nodeward.Groups.List", &json!({}))["parameters"]["groups"][0];
    assert_eq!(keys(told), &always | &optional);
    assert_eq!(told["home_pages"], json!({"0": 0, "1": 0, "2": 9}));
    assert_eq!(client.groups().unwrap().groups[0].decided_home(), Some(interleaved()));
}

/// Goal: an agent of before these fields is understood: then memory belongs where threads do, and
/// nothing is said of what was brought.
#[test]
fn agents_of_before_are_understood() {
    let told = |home: Value| {
        json!({
            "pid": 7, "name": "x", "verdict": "stays", "reason": "memory-there",
            "home": home, "threads": {}, "pages": { "0": 1 },
        })
    };
    let read = |home| serde_json::from_value::<WireDecision>(told(home)).unwrap();
    assert_eq!(read(json!([1])).decided_home(), Some(Home::Node(NodeId(1))));
    assert_eq!(read(json!([0, 2])).decided_home(), Some(Home::Spread("0,2".parse().unwrap())));
    assert_eq!(read(Value::Null).decided_home(), None);
    assert_eq!((read(json!([1])).threads_brought, read(json!([1])).pages_brought), (None, None));
    let group = json!({ "name": "g", "members": [], "nodes": [1], "threads": {}, "pages": {} });
    let group: WireGroup = serde_json::from_value(group).unwrap();
    assert_eq!(group.decided_home(), Some(Home::Node(NodeId(1))));
}
