//! Metrics: that they are true, well-formed, and few.

use std::collections::BTreeSet;
use std::sync::Arc;

use nodeward_agent::metrics::{FAMILIES, MetricKind, text};
use nodeward_balancer::{BalanceSettings, Balancer, RoundReport};
use nodeward_linux::test_wait::wait_until;
use nodeward_machine::Machine;
use nodeward_machine::fake::{FakeMachine, FakeProcess, FakeThread};
use nodeward_model::{CpuId, NodeId, Page, PageList, Pid, ProcessFilter, ZoneLists};
use nodeward_mover::MoveControl;
use serde_json::json;

use crate::stage::{Stage, order};
use crate::text_format::Metrics;

/// Processes that have run for long and are busy; the others have just begun.
const BUSY: u32 = 60;

/// A machine of four nodes, as [`machine_of`] has it.
fn machine_with(processes: u32) -> Arc<FakeMachine> {
    machine_of(4, processes)
}

/// A machine of nodes with eight CPUs each, and page lists of each node's zones. Each process has a
/// thread and 16 pages, on the node of the thread or on another.
pub fn machine_of(nodes: u32, processes: u32) -> Arc<FakeMachine> {
    let of_cpu = |cpu| PageList {
        cpu: CpuId(cpu),
        count_pages: 50,
        high_pages: 150,
        batch_pages: 63,
        high_min_pages: None,
        high_max_pages: None,
    };
    let list = |node: u32, zone: &str| ZoneLists {
        node: NodeId(node),
        zone: zone.to_owned(),
        managed_pages: 1000,
        free_pages: 500,
        high_watermark_pages: 100,
        lists: vec![of_cpu(0), of_cpu(1)],
    };
    let low = [list(0, "DMA"), list(0, "DMA32")];
    let lists = low.into_iter().chain((0..nodes).map(|node| list(node, "Normal")));
    let machine = FakeMachine::with_topology(true, &format!("{nodes}n 8c 1t 64GiB"));
    let machine = machine.with_page_lists(lists.collect());
    for number in 0..processes {
        let (busy, cpu_time_ns) = if number < BUSY { (300, 60_000_000_000) } else { (1, 0) };
        let thread = FakeThread::new(CpuId(number % 32), "0-31".parse().unwrap(), busy);
        let thread = FakeThread { cpu_time_ns, ..thread };
        let process = FakeProcess {
            threads: [(1_000_000 + number, thread)].into(),
            name: format!("p{number}").as_str().into(),
            ..FakeProcess::with_pages(&[Page::on(NodeId(number % 3)); 16])
        };
        machine.spawn(Pid::new(100 + number).unwrap(), process);
    }
    Arc::new(machine)
}

/// The report of the last of some rounds.
pub fn balanced(machine: &Arc<FakeMachine>, rounds: usize) -> RoundReport {
    let shared: Arc<dyn Machine> = Arc::<FakeMachine>::clone(machine);
    let settings = BalanceSettings::default();
    let mut balancer = Balancer::new(shared, &ProcessFilter::default(), settings, None).unwrap();
    let mut round = || {
        let report = balancer.round(&MoveControl::default()).unwrap();
        machine.sleep_ns(report.interval_ns);
        report
    };
    let reports: Vec<_> = (0..rounds).map(|_| round()).collect();
    reports.into_iter().rfind(|report| !report.fast).unwrap()
}

/// Goal: what is told is what the round saw. Of 60 processes with 16 pages of 4096 bytes a third is
/// on each of three nodes; nothing is on the fourth, and all four are told, as are their lists.
#[test]
fn nodes_are_told_as_the_round_saw_them() {
    let machine = machine_with(60);
    let report = balanced(&machine, 40);
    let metrics = Metrics::read(&text(&report, None, &*machine, &[]));
    let on = |name: &str, node: &str| metrics.value(name, &[("node", node)]);
    assert_eq!(metrics.sum("nodeward_memory_bytes"), f64::from(60 * 16 * 4096));
    assert!(on("nodeward_memory_bytes", "3").is_some() && on("nodeward_homes", "3").is_some());
    let homes = report.processes.iter().filter(|row| row.home.is_some()).count();
    assert_eq!(metrics.sum("nodeward_homes"), homes as f64);
    assert!(homes > 0, "nobody is at home");
    let away = |row: &nodeward_balancer::ProcessRow| {
        let home = row.home.as_ref().map(|home| home.memory_nodes()).unwrap_or_default();
        let away = row.pages.iter().filter(|(node, _)| !home.is_empty() && !home.contains(**node));
        away.map(|(_, pages)| pages * 4096).sum::<u64>()
    };
    let away: u64 = report.processes.iter().map(away).sum();
    assert_eq!(metrics.sum("nodeward_misplaced_bytes"), away as f64);
    let of_homes = metrics
        .samples
        .iter()
        .filter(|sample| sample.name == "nodeward_decisions" && sample.labels["about"] == "home");
    assert_eq!(of_homes.map(|sample| sample.value).sum::<f64>(), 60.0);
    let zone = [("node", "2"), ("zone", "Normal")];
    assert_eq!(metrics.value("nodeward_page_list_bytes", &zone), Some(409_600.0));
    assert_eq!(metrics.value("nodeward_page_list_high_bytes", &zone), Some(1_228_800.0));
    let moved = report.totals.moves.values().map(|moves| moves.moved_pages()).sum::<u64>();
    assert_eq!(metrics.sum("nodeward_moved_bytes_total"), (moved * 4096) as f64);
    assert_eq!(metrics.sum("nodeward_flow_bytes_total"), (moved * 4096) as f64);
}

/// Goal: each metric is as the list says: its name, its type, and its labels.
#[test]
fn metrics_are_those_of_the_list() {
    let machine = machine_with(60);
    let written = text(&balanced(&machine, 10), Some(&Default::default()), &*machine, &[]);
    let metrics = Metrics::read(&written);
    for (name, kind) in &metrics.types {
        let family = FAMILIES.iter().find(|family| family.name == name);
        let family = family.unwrap_or_else(|| panic!("{name} is not in the list"));
        let expected = match family.kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
        };
        assert_eq!(kind, expected, "{name}");
        for sample in metrics.samples.iter().filter(|sample| sample.name == *name) {
            let labels: BTreeSet<&str> = sample.labels.keys().map(String::as_str).collect();
            assert_eq!(labels, family.labels.iter().copied().collect(), "{name}");
        }
    }
    assert!(metrics.types.len() > 20, "{:?}", metrics.types);
}

/// Goal: before the first round there is nothing to tell of rounds, and no zero in its place.
#[test]
fn before_the_first_round() {
    let machine = machine_with(1);
    let metrics = Metrics::read(&text(&RoundReport::default(), None, &*machine, &[]));
    assert!(!metrics.types.contains_key("nodeward_memory_bytes"));
    assert!(!metrics.types.contains_key("nodeward_last_round_timestamp_seconds"));
    assert!(metrics.types.contains_key("nodeward_build_info"));
}

/// Goal: over the socket metrics have what users had moved, and the requests: 100 pages of this
/// process, and one request that was refused.
#[test]
fn the_agent_tells_of_itself() {
    let stage = Stage::new();
    let own = Pid::of_this_process();
    stage.give_memory(own, 100);
    let mut talk = stage.connect();
    talk.call("io.nodeward.Moves.Start", &json!({ "order": order(&[]) }));
    talk.call("io.nodeward.Moves.Cancel", &json!({ "move": 99 }));
    let mut read = || {
        let reply = talk.call("io.nodeward.Metrics.Read", &json!({}));
        Metrics::read(reply["parameters"]["text"].as_str().unwrap())
    };
    let agent = [("mover", "agent")];
    wait_until("the move has ended", || read().value("nodeward_moves_total", &agent) == Some(1.0));
    let metrics = read();
    assert_eq!(metrics.value("nodeward_moved_bytes_total", &agent), Some(409_600.0));
    let flow = [("from", "0"), ("to", "1")];
    assert_eq!(metrics.value("nodeward_flow_bytes_total", &flow), Some(409_600.0));
    let requests = |of| metrics.value("nodeward_agent_requests_total", &[("interface", of)]);
    assert_eq!(requests("moves"), Some(2.0));
    assert!(requests("metrics") >= Some(2.0));
    assert_eq!(metrics.value("nodeward_agent_refusals_total", &[]), Some(1.0));
}

/// Goal: a balancer that stands back says so in its next round, and tells no memory of before.
#[test]
fn standing_back_is_told() {
    let stage = Stage::new();
    let machine = machine_with(2);
    stage.agent.publish(&balanced(&machine, 3));
    let stands_back = RoundReport { round: 9, stands_back: true, ..RoundReport::default() };
    stage.agent.publish(&stands_back);
    let reply = stage.connect().call("io.nodeward.Metrics.Read", &json!({}));
    let metrics = Metrics::read(reply["parameters"]["text"].as_str().unwrap());
    assert_eq!(metrics.value("nodeward_stands_back", &[]), Some(1.0));
    assert_eq!(metrics.value("nodeward_entities", &[("kind", "process")]), Some(0.0));
}
