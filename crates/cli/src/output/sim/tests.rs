//! Tests with handmade reports, so that the printed text does not depend on the model.

use std::collections::BTreeMap;

use nodeward_model::{Account, NodeId};
use nodeward_scenario::Scenario;
use nodeward_sim::{
    ActionMoveReport, ActionReport, Curves, LatencyReport, MachineReport, MemoryReport, Moment,
    NodePoint, NodeReport, Point, ResidencySnapshot, Section, SimReport, WorkloadReport,
};

use super::*;
use crate::results::simulation::EndReason;

const SECOND_NS: u64 = 1_000_000_000;
/// 2 GiB in pages of 4 KiB.
const PAGES: u64 = 2 << 18;

/// 2 GiB that move from node 2 to node 0 at one second, in a run of three.
fn example() -> SimReport {
    let picture =
        |moment, at_ns, pages: [u64; 2]| ResidencySnapshot { moment, at_ns, pages: pages.into() };
    let memory = |picture, local| MemoryReport {
        snapshot: picture,
        local_ppm: Some(local),
        window_ns: 300_000_000,
    };
    let node = |id, busy_ns, free: u64| NodeReport {
        node: NodeId(id),
        cpus: if busy_ns > 0 { 4 } else { 0 },
        busy_ns,
        memory_bytes: 4 << 30,
        free_bytes: free << 30,
        bytes_per_s: 5_000_000_000,
        bytes_per_s_max: 10_000_000_000,
    };
    SimReport {
        scenario: "example".to_owned(),
        about: "Memory follows its threads".to_owned(),
        seed: 7,
        virtual_ns: 3 * SECOND_NS,
        trace_hash: "00c0ffee00c0ffee".to_owned(),
        events: 1_234_567,
        mapped_pages: PAGES,
        kept_bytes: PAGES,
        machine: MachineReport {
            nodes: 2,
            cpus: 4,
            memory_bytes: 8 << 30,
            page_bytes: 4096,
            line_bytes: 64,
        },
        memory: vec![
            memory(picture(Moment::FirstAction, SECOND_NS - 1, [0, PAGES]), 0),
            memory(picture(Moment::End, 3 * SECOND_NS, [PAGES * 3 / 4, PAGES / 4]), 912_345),
        ],
        workloads: vec![
            workload("stream", "lines", 300_000_000, Some(600_000)),
            workload("talk", "messages", 3_000, None),
        ],
        nodes: vec![node(0, 6 * SECOND_NS, 2), node(2, 0, 4)],
        actions: vec![ActionReport { at_ns: SECOND_NS, what: "stream: move".to_owned() }],
        moves: vec![ActionMoveReport {
            action: 0,
            from: NodeId(2),
            to: NodeId(0),
            began_ns: SECOND_NS,
            ended_ns: Some(2 * SECOND_NS),
            pages_per_s: PAGES * 3 / 4,
            account: Account { moved: PAGES * 3 / 4, ..Account::default() },
            step_ns: [("copy", SECOND_NS / 2)].into(),
        }],
        latencies: [(
            "allocation",
            LatencyReport { count: PAGES, p50_ns: 100, p99_ns: 9_000, max_ns: 1_000_000 },
        )]
        .into(),
        time_ns: [("user", 5 * SECOND_NS), ("copy", SECOND_NS)].into(),
        counters: [("migrated_pages", PAGES * 3 / 4), ("zone_waited_ns", 12_345)].into(),
        curves: curves(),
    }
}

fn workload(name: &str, unit: &'static str, done: u64, local: Option<u64>) -> WorkloadReport {
    WorkloadReport {
        name: name.to_owned(),
        processes: 2,
        threads: 2,
        unit,
        done,
        done_per_s: done / 3,
        local_ppm: local,
        cpu_ns: 3 * SECOND_NS,
    }
}

fn curves() -> Curves {
    let point = |second: u64| Point {
        at_ns: second * SECOND_NS,
        local_lines: 1_000_000 * second.saturating_sub(1),
        remote_lines: 500_000 * second,
        migrated_pages: if second > 1 { PAGES / 4 * (second - 1) } else { 0 },
        fault_pages: 0,
        called_pages: 0,
        busy_cpus: 4,
        nodes: vec![NodePoint { free_pages: 1 << 19, bytes_per_s: 5_000_000_000 }; 2],
    };
    Curves { every_ns: SECOND_NS, points: (0..4).map(point).collect() }
}

fn run(report: SimReport, ended: EndReason) -> SimulationRun {
    SimulationRun { report, ended, wall_ns: SECOND_NS * 3 / 2, balanced: None }
}

fn told(report: SimReport, sections: &[Section], same: Option<bool>) -> (String, Value) {
    let run = run(report, EndReason::VirtualTime);
    let told = SimOutput { run: &run, is_deterministic: same, sections };
    (text(&told), json(&told))
}

#[test]
fn a_run_on_one_screen() {
    let (text, json) = told(example(), &Section::ALL, Some(true));
    insta::assert_snapshot!(text);
    insta::assert_snapshot!(serde_json::to_string_pretty(&json).unwrap());
    // A terminal of 40 lines and 100 columns.
    assert!(text.lines().count() <= 36 && text.lines().all(|line| line.len() <= 100), "{text}");
}

/// Goal: sections are printed in the requested order; others are left out.
#[test]
fn a_report_tells_what_was_asked_for() {
    let (text, json) = told(example(), &[Section::Nodes, Section::Memory], None);
    let place = |word: &str| text.find(word);
    assert!(place("NODE ") < place("MEMORY  "), "{text}");
    assert_eq!([place("WORKLOAD"), place("COUNTED"), place("ACTIONS")], [None; 3]);
    let report = json["report"].as_object().unwrap();
    assert!(report.contains_key("nodes") && report.contains_key("memory"));
    assert!(!report.contains_key("curves") && !report.contains_key("time_ns"));
}

/// Goal: empty sections are left out, and a machine without programs is reported as such.
#[test]
fn empty_sections_are_left_out() {
    let mut report = example();
    report.memory.iter_mut().for_each(|memory| {
        memory.snapshot.pages = vec![0, 0];
        memory.local_ppm = None;
    });
    (report.workloads, report.actions) = (Vec::new(), Vec::new());
    (report.moves, report.latencies) = (Vec::new(), BTreeMap::new());
    (report.time_ns, report.counters) = (BTreeMap::new(), BTreeMap::new());
    let (text, _) = told(report, &Section::ALL, None);
    assert!(text.contains("no programs"), "{text}");
    for word in ["at the end", "ACTIONS", "CPU time", "COUNTED"] {
        assert!(!text.contains(word), "{word}: {text}");
    }
}

/// Goal: the report of a machine with many nodes fits the screen: the last row is for all nodes
/// without one.
#[test]
fn many_nodes_share_a_row() {
    let mut report = example();
    report.nodes = vec![report.nodes[0].clone(); 16];
    report.memory.iter_mut().for_each(|memory| memory.snapshot.pages = vec![1024; 16]);
    let (text, _) = told(report, &Section::ALL, None);
    // 7 nodes of 4 MiB have rows, and 9 x 4 MiB = 36 MiB on the others.
    let row = text.lines().find(|line| line.starts_with("  9 more")).unwrap();
    assert!(row.contains("36.0 MiB") && row.contains("56.3 %"), "{row}");
    // 9 nodes of 4 GiB.
    let row = text.lines().find(|line| line.starts_with("9 more ")).unwrap();
    assert!(row.contains("36.0 GiB"), "{row}");
}

/// Goal: the picture is XML with three charts and the action in it.
#[test]
fn the_picture_is_sound() {
    let mut scenario = Scenario::find("two-socket").unwrap();
    let draw = |scenario: &Scenario, report: &SimReport| {
        let text = svg(scenario, report).unwrap();
        let picture = roxmltree::Document::parse(&text).unwrap();
        assert_eq!(picture.root_element().tag_name().name(), "svg");
        text
    };
    let text = draw(&scenario, &example());
    for words in ["lines from the own node", "memory delivers", "that migrates", "move from node"] {
        assert!(text.contains(words), "{words}");
    }
    // Names of workloads reach the picture, so they must not break it.
    scenario.actions[0].workload = "<&\"'>".to_owned();
    draw(&scenario, &example());
    let mut short = example();
    for points in [1, 0] {
        short.curves.points.truncate(points);
        draw(&scenario, &short);
    }
}
