//! Varlink, as other implementations speak it.

use nodeward_agent::INTERFACES;
use nodeward_agent::client::Client;
use nodeward_model::Pid;
use serde_json::json;
use varlink::{OrgVarlinkServiceClient, OrgVarlinkServiceInterface as _};

use crate::stage::Stage;

/// Goal: the client of another implementation finds all interfaces and their texts.
#[test]
fn a_stranger_can_look_around() {
    let stage = Stage::new();
    let address = format!("unix:{}", stage.path().display());
    let connection = varlink::Connection::with_address(&address).unwrap();
    let mut client = OrgVarlinkServiceClient::new(connection);
    let info = client.get_info().unwrap();
    let names: Vec<_> = INTERFACES.iter().map(|(name, _)| name.to_string()).collect();
    assert_eq!(info.interfaces.iter().map(ToString::to_string).collect::<Vec<_>>(), names);
    for (name, text) in INTERFACES {
        let described = client.get_interface_description(name).unwrap();
        assert_eq!(described.description.as_deref(), Some(text));
    }
    assert!(client.get_interface_description("io.nodeward.Nothing").is_err());
}

/// Goal: bytes as the specification has them, written by hand: one object and a zero byte a
/// message; several in one write are answered in their order, one cut in two as one; a oneway call
/// has no reply; unknown words are refused with the errors of the specification.
#[test]
fn messages_by_hand() {
    let stage = Stage::new();
    let mut talk = stage.connect();
    let ask = r#"{"method":"org.varlink.service.GetInfo"}"#;
    let unknown = r#"{"method":"io.nodeward.Moves.Undo","parameters":{}}"#;
    let silent = r#"{"method":"io.nodeward.Agent.Describe","oneway":true}"#;
    let strange = r#"{"method":"io.nodeward.Agent.Describe","parameters":{"x":1}}"#;
    let upgrade = r#"{"method":"io.nodeward.Agent.Describe","upgrade":true}"#;
    talk.send(format!("{ask}\0{unknown}\0{silent}\0{strange}\0{upgrade}\0{{\"met").as_bytes());
    assert_eq!(talk.reply().unwrap()["parameters"]["product"], "nodeward");
    let error = |value: serde_json::Value| value["error"].as_str().unwrap().to_owned();
    assert_eq!(error(talk.reply().unwrap()), "org.varlink.service.MethodNotFound");
    assert_eq!(error(talk.reply().unwrap()), "org.varlink.service.InvalidParameter");
    assert_eq!(error(talk.reply().unwrap()), "org.varlink.service.MethodNotImplemented");
    talk.send(b"hod\":\"io.nodeward.Agent.Describe\"}\0");
    let described = talk.reply().unwrap()["parameters"].clone();
    assert_eq!(described["uid"], json!(rustix::process::geteuid().as_raw()));
    assert_eq!(described["limits"]["moves_of_user"], 2);
}

/// Goal: residency has the kinds and nodes of the machine: 3 pages, all on node 0; without a pid it
/// is the caller's, and with ranges what is in these, once.
#[test]
fn residency_is_told() {
    let stage = Stage::new();
    let us = Pid::of_this_process();
    stage.give_memory(us, 3);
    let mut client = Client::connect(&stage.path()).unwrap();
    let (residency, segments) = client.residency(us, true, 0, Some(1)).unwrap();
    assert_eq!((residency.pid, residency.total().pages), (us, 3));
    assert_eq!(residency.total().nodes.len(), 1);
    assert!(segments.is_empty());
    let own = client.call("io.nodeward.Residency.Show", json!({})).unwrap();
    assert_eq!((&own["pid"], &own["kinds"]["anonymous"]["pages"]), (&json!(us), &json!(3)));
    let mut look = |ranges| client.call("io.nodeward.Residency.Show", json!({ "ranges": ranges }));
    let nothing = look(json!([{ "start": 0, "end": 4096 }])).unwrap();
    assert_eq!(nothing["kinds"], json!({}));
    let twice = [0, 1].map(|start| json!({ "start": start, "end": u64::MAX }));
    let all = look(json!(twice)).unwrap();
    assert_eq!(all["kinds"]["anonymous"]["pages"], 3);
    let wrong = look(json!([{ "start": 5, "end": 5 }])).unwrap_err().to_string();
    assert!(wrong.contains("ranges: one ends before it begins"), "{wrong}");
}

/// Goal: what the balancer publishes is what the next request is answered by; before that nothing
/// is decided.
#[test]
fn decisions_are_those_of_the_last_round() {
    let stage = Stage::new();
    let us = Pid::of_this_process();
    let mut client = Client::connect(&stage.path()).unwrap();
    let (document, text) = client.explain(us).unwrap();
    assert_eq!(document, json!({ "pid": us, "round": 0, "row": false }));
    assert_eq!(text, format!("process {us}\n"));
    let report = nodeward_balancer::RoundReport { round: 7, ..Default::default() };
    stage.agent.publish(&report);
    assert_eq!(client.explain(us).unwrap().0["round"], 7);
    let homes = client.call("io.nodeward.Placement.Homes", json!({})).unwrap();
    assert_eq!((&homes["round"], &homes["decisions"]), (&json!(7), &json!([])));
}
