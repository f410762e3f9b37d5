//! Traces and reports of runs: their contents, and that observing changes nothing.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use nodeward_model::NodeId;
use nodeward_scenario::{Action, ActionKind, MemoryPlacement, Scenario};
use nodeward_sim::{Moment, Perfetto, TraceEnd, World};
use serde_json::Value;

use crate::common::{machine, scenario, triad};

const RUN_NS: u64 = 100_000_000;

/// Twelve programs on eight CPUs, so that turns end for all reasons.
fn crowded() -> Scenario {
    scenario(machine(2, 4, 4), triad(12, 8))
}

fn traced(scenario: &Scenario, bytes_max: u64) -> (World, TraceEnd, String) {
    let trace = Arc::new(Mutex::new(Perfetto::new(Vec::new(), scenario, bytes_max)));
    let mut world = World::new(scenario, 3);
    world.set_observer(Box::new(Arc::clone(&trace)));
    world.run_until(RUN_NS);
    let mut trace = trace.lock().unwrap();
    let end = trace.end(world.now_ns()).unwrap();
    let text = String::from_utf8(trace.out().clone()).unwrap();
    (world, end, text)
}

/// The nanoseconds of a time in microseconds: below 2^53, so exact.
fn ns(time: &Value) -> u64 {
    (time.as_f64().unwrap() * 1000.0).round() as u64
}

/// Goal: the trace is JSON, its CPUs do one thing at a time, and they are busy for as long as the
/// report says, without turns that have not ended.
#[test]
fn turns_do_not_overlap() {
    let (world, end, text) = traced(&crowded(), 1 << 30);
    assert_eq!(end, TraceEnd { bytes: text.len() as u64, cut_at_ns: None });
    let told: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(told["displayTimeUnit"], "ns");
    let mut tracks: BTreeMap<u64, Vec<(u64, u64)>> = BTreeMap::new();
    for event in told["traceEvents"].as_array().unwrap().iter().filter(|e| e["ph"] == "X") {
        let track = tracks.entry(event["tid"].as_u64().unwrap()).or_default();
        track.push((ns(&event["ts"]), ns(&event["dur"])));
    }
    assert_eq!(tracks.len(), 8, "all CPUs work");
    let mut all = 0;
    for turns in tracks.values() {
        all += turns.iter().map(|(_, ns)| ns).sum::<u64>();
        assert!(turns.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0), "{turns:?}");
    }
    let busy: u64 = world.report().nodes.iter().map(|node| node.busy_ns).sum();
    assert_eq!(all, busy);
}

/// Goal: observation does not change a run, at whatever interval.
#[test]
fn looking_on_changes_nothing() {
    let alone = |scenario: &Scenario| {
        let mut world = World::new(scenario, 3);
        world.run_until(RUN_NS);
        world
    };
    let (seen, ..) = traced(&crowded(), 1 << 30);
    assert_eq!(alone(&crowded()).report(), seen.report());
    let often = Scenario { sample_ns: 1_000_000, ..crowded() };
    assert_eq!(alone(&often).trace_hash(), seen.trace_hash());
    let mut in_steps = World::new(&crowded(), 3);
    while !in_steps.run_events(RUN_NS, 7) {}
    assert_eq!(in_steps.report(), seen.report());
}

/// Goal: a trace that grows too large is cut, says so, and is still valid.
#[test]
fn a_cut_trace_is_whole() {
    let (_, end, text) = traced(&crowded(), 16 << 10);
    assert!(end.cut_at_ns.is_some_and(|at| at < RUN_NS), "{end:?}");
    assert!(text.len() <= 16 << 10, "{}", text.len());
    let told: Value = serde_json::from_str(&text).unwrap();
    let last = told["traceEvents"].as_array().unwrap().last().unwrap();
    assert_eq!(last["name"], "the trace is cut here");
    let (_, end, text) = traced(&crowded(), 0);
    assert_eq!(end.cut_at_ns, Some(0));
    serde_json::from_str::<Value>(&text).unwrap();
}

/// Goal: an error of the writer is reported at the end.
#[test]
fn a_full_disk_is_told() {
    let full: &mut [u8] = &mut [0; 100];
    let mut trace = Perfetto::new(full, &crowded(), 1 << 20);
    assert_eq!(trace.end(0).unwrap_err().kind(), std::io::ErrorKind::WriteZero);
}

/// Goal: the first picture is of the moment before the first action; actions that were due are in
/// report and trace, others are not.
#[test]
fn actions_have_a_picture_before() {
    let kill = |at_ns| Action { at_ns, workload: "triad".to_owned(), kind: ActionKind::Kill };
    let mut scenario = crowded();
    scenario.actions = vec![kill(50_000_000), kill(2 * RUN_NS)];
    let (world, _, text) = traced(&scenario, 1 << 30);
    let report = world.report();
    assert_eq!(report.actions.len(), 1);
    assert_eq!(text.matches("triad: killed").count(), 1);
    let before = &report.memory[0].snapshot;
    assert_eq!((before.moment, before.at_ns), (Moment::FirstAction, 49_999_999));
    // 12 processes of 8 MiB of 4 KiB pages.
    assert_eq!(before.pages.iter().sum::<u64>(), 12 * 2048);
}

/// Goal: the numbers of a report are consistent: 4 programs whose memory is bound to the node on
/// which they may not run have no local lines, and the other node keeps all its memory.
#[test]
fn reports_add_up() {
    let mut workload = triad(4, 8);
    workload.nodes = Some([NodeId(0)].into_iter().collect());
    workload.placement = MemoryPlacement::Bind([NodeId(1)].into_iter().collect());
    let mut world = World::new(&scenario(machine(2, 4, 4), workload), 1);
    world.run_until(RUN_NS);
    let report = world.report();
    let (stream, [near, far]) = (&report.workloads[0], [&report.nodes[0], &report.nodes[1]]);
    assert_eq!((stream.local_ppm, stream.unit), (Some(0), "lines"));
    assert_eq!(stream.done, report.counters["remote_lines"]);
    assert_eq!(stream.done_per_s, stream.done * 10, "a tenth of a second");
    let switched = report.counters["switches"] * 1500;
    assert_eq!((near.free_bytes, near.busy_ns), (4 << 30, stream.cpu_ns + switched));
    assert_eq!((far.free_bytes, far.busy_ns), ((4 << 30) - 4 * (8 << 20), 0));
    assert_eq!(report.memory[0].snapshot.moment, Moment::Populated);
    assert_eq!(report.memory[1].snapshot.pages, [0, 4 * 2048]);
    assert_eq!(report.memory[1].local_ppm, Some(0));
    assert_eq!(report.time_ns.values().sum::<u64>(), stream.cpu_ns + switched);
    assert_eq!(report.mapped_pages, 4 * 2048);
    assert_eq!(report.curves.points.last().unwrap().at_ns, RUN_NS);
}
