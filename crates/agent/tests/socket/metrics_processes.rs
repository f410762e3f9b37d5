//! Metrics of single processes: which are named, in what words, and to whom.

use std::collections::{BTreeMap, BTreeSet};

use nodeward_agent::metrics::{most_misplaced, text};
use nodeward_balancer::{Done, ProcessRow, RoundReport};
use nodeward_machine::fake::FakeMachine;
use nodeward_model::{Name, NodeId, Pid};
use nodeward_policy::placement::{Decision, EntityId, Home, Reason, Verdict};
use serde_json::json;

use crate::authority::Speaker;
use crate::metrics_files::promtool;
use crate::stage::{Stage, USER, is_root};
use crate::text_format::Metrics;

fn pid(number: u32) -> Pid {
    Pid::new(number).unwrap()
}

/// A process with pages on nodes 0 and 1.
pub fn row(pid: Pid, name: impl Into<Name>, home: Option<u32>, pages: [u64; 2]) -> ProcessRow {
    ProcessRow {
        pid,
        name: name.into(),
        home: home.map(|node| Home::Node(NodeId(node))),
        decision: Decision::new(EntityId(1), Verdict::Stays, Reason::MemoryThere),
        counted_pages: None,
        changed: false,
        threads: BTreeMap::new(),
        pages: (0..).map(NodeId).zip(pages).collect(),
        pages_at_ns: None,
        segments: Vec::new(),
        done: Done::default(),
    }
}

fn report(processes: Vec<ProcessRow>) -> RoundReport {
    RoundReport { round: 5, page_bytes: 4096, processes, ..RoundReport::default() }
}

/// The metrics of a round that name so many processes.
fn naming(report: &RoundReport, count: usize) -> String {
    let named: Vec<_> =
        most_misplaced(report, count).into_iter().map(|row| (row.pid, row)).collect();
    text(report, None, &FakeMachine::new(true), &named)
}

/// The pids that are told.
fn pids(metrics: &Metrics) -> BTreeSet<String> {
    metrics.samples.iter().filter_map(|sample| sample.labels.get("pid").cloned()).collect()
}

/// Goal: what is told of a process is what the round knows: at home on 1 with 3 pages there and 5
/// on node 0, which are away. Without a home nothing is away. A node without memory has no sample.
#[test]
fn a_process_is_told_as_the_round_saw_it() {
    let report =
        report(vec![row(pid(7), "db", Some(1), [5, 3]), row(pid(8), "left", None, [0, 2])]);
    let metrics = Metrics::read(&naming(&report, 10));
    let value = |name: &str, labels: &[(&str, &str)]| metrics.value(name, labels);
    let [db, left] = [("7", "db"), ("8", "left")].map(|(pid, name)| [("pid", pid), ("name", name)]);
    let with = |of: [(&'static str, &'static str); 2], third| [of[0], of[1], third];
    assert_eq!(value("nodeward_pid_home", &with(db, ("home", "1"))), Some(1.0));
    assert_eq!(metrics.sum("nodeward_pid_home"), 1.0);
    assert_eq!(value("nodeward_pid_memory_bytes", &with(db, ("node", "0"))), Some(5.0 * 4096.0));
    assert_eq!(value("nodeward_pid_memory_bytes", &with(db, ("node", "1"))), Some(3.0 * 4096.0));
    assert_eq!(value("nodeward_pid_memory_bytes", &with(left, ("node", "0"))), None);
    assert_eq!(value("nodeward_pid_memory_bytes", &with(left, ("node", "1"))), Some(2.0 * 4096.0));
    assert_eq!(value("nodeward_pid_misplaced_bytes", &db), Some(5.0 * 4096.0));
    assert_eq!(value("nodeward_pid_misplaced_bytes", &left), Some(0.0));
    assert_eq!(
        metrics.sum("nodeward_misplaced_bytes"),
        metrics.sum("nodeward_pid_misplaced_bytes")
    );
}

/// Goal: of ten thousand processes as many are named as were asked for: those with most memory
/// away, here the last ones by pid, and then those with most memory. Each has four series at most:
/// a home, two nodes, and what is away.
#[test]
fn so_many_are_named_as_were_asked_for() {
    let of = |number: u32| {
        // Ten have memory away; of the others memory grows with the pid up to 9989.
        let away = if number >= 9990 { u64::from(number) } else { 0 };
        row(pid(number), "p", Some(1), [away, u64::from(number)])
    };
    let report = report((1..=10_000).map(of).collect());
    let without = Metrics::read(&naming(&report, 0));
    assert_eq!(pids(&without), BTreeSet::new());
    for count in [1, 11, 100] {
        let metrics = Metrics::read(&naming(&report, count));
        let expected = (10_001 - count as u32..=10_000).map(|number| number.to_string());
        assert_eq!(pids(&metrics), expected.collect(), "{count}");
        assert!(metrics.samples.len() <= without.samples.len() + 4 * count);
    }
}

/// Goal: a name is its owner's to choose: quotes, line ends, escape sequences and bytes that are no
/// text make no other sample and no other line, and promtool finds nothing to say.
#[test]
fn hostile_names() {
    let names: [&[u8]; 5] = [b"a\"} 1\n# b", b"\\", b"\x1b[2J", b"\xff\xfe", b"nodeward_up 0\n"];
    let rows = (1..).zip(names).map(|(number, name)| row(pid(number), name, Some(1), [1, 0]));
    let report = report(rows.collect());
    let written = naming(&report, 5);
    let control = |c: char| c.is_control() && c != '\n';
    assert!(!written.contains(control), "{written:?}");
    let metrics = Metrics::read(&written);
    assert_eq!(pids(&metrics), (1..=5).map(|number| number.to_string()).collect());
    assert!(!metrics.types.contains_key("nodeward_up"), "{written}");
    let told = metrics.samples.iter().filter(|it| it.name == "nodeward_pid_misplaced_bytes");
    let told: Vec<&str> = told.map(|sample| sample.labels["name"].as_str()).collect();
    let escaped = names.map(|name| Name::from(name).to_string());
    assert_eq!(told.iter().collect::<BTreeSet<_>>().len(), 5, "{told:?}");
    assert!(escaped.iter().all(|name| told.contains(&name.as_str())), "{told:?}, {escaped:?}");
    if let Some((is_good, told)) = promtool(&["check", "metrics"], &written) {
        assert!(is_good && told.trim().is_empty(), "{told}");
    }
}

/// Goal: over the socket a caller has the processes that it may touch, by the pid that it knows,
/// and no other; without the setting nobody has any.
#[test]
fn callers_have_their_own_processes() {
    let us = Pid::of_this_process();
    let read =
        |reply: serde_json::Value| Metrics::read(reply["parameters"]["text"].as_str().unwrap());
    let of = |pids: &[Pid]| report(pids.iter().map(|&pid| row(pid, "x", None, [1, 0])).collect());
    let stage = Stage::new();
    stage.agent.publish(&of(&[us]));
    let reply = stage.connect().call("io.nodeward.Metrics.Read", &json!({}));
    assert_eq!(pids(&read(reply)), BTreeSet::new());
    let stage = Stage::naming(2);
    stage.agent.publish(&of(&[us]));
    let reply = stage.connect().call("io.nodeward.Metrics.Read", &json!({}));
    assert_eq!(pids(&read(reply)), [us.to_string()].into());
    if !is_root() {
        return;
    }
    if let Some(mut other) = Speaker::of(&stage, USER, USER) {
        stage.agent.publish(&of(&[us, other.0.pid()]));
        let reply = other.call("io.nodeward.Metrics.Read", &json!({}));
        assert_eq!(pids(&read(reply)), [other.0.pid().to_string()].into());
    }
    if let Some((mut first, outside)) = Speaker::in_pid_namespace(&stage) {
        stage.agent.publish(&of(&[us, outside]));
        let reply = first.call("io.nodeward.Metrics.Read", &json!({}));
        assert_eq!(pids(&read(reply)), ["1".to_owned()].into());
    }
}
