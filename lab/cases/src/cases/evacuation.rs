//! `nodeward evacuate`: nodes that are emptied.

use std::fs::File;
use std::path::Path;

use nodeward_linux::sysfs::node_memory;
use nodeward_model::NodeId;
use serde::Deserialize;

use super::files::move_file;
use crate::case_outcome::{CaseFn, CaseOutcome};
use crate::disk::{Disk, digest, pages_by_node};
use crate::load::LoadProcess;
use crate::nodeward::{FilesReport, nodeward};
use crate::numa_maps::PagesByNode;

pub const CASES: [(&str, CaseFn); 1] = [("evacuate_a_node", evacuate_a_node)];

/// The report of an evacuation.
#[derive(Debug, Deserialize)]
struct EvacuationJson {
    processes: ProcessesField,
    #[serde(rename = "move")]
    moves: serde_json::Value,
    files: FilesReport,
    memory_after: serde_json::Value,
}

#[derive(Debug, Deserialize)]
struct ProcessesField {
    resident: u64,
    denied: u64,
}

const MIB: u64 = 256; // pages

fn on(nodes: &PagesByNode, node: u32) -> u64 {
    nodes.get(&node).copied().unwrap_or(0)
}

/// Goal: of two processes with 8 MiB each and of a file with 8 MiB in memory that a third only
/// has open, less than 2 % is left on the node. An undo brings back the processes, and a move of
/// the file its pages; the loads check that no word was lost.
fn evacuate_a_node() -> CaseOutcome {
    let disk = Disk::ext4()?;
    let (path, content) = disk.write_clean("cached", 8);
    let report: FilesReport = move_file(&path, "1").json_after_exit(0);
    assert_eq!(report.account.moved, 8 * MIB);
    let open = File::open(&path).expect("the file can be opened");
    let loads = ["anonymous", "shared"]
        .map(|kind| LoadProcess::start(&format!("--node 1 --size 8MiB --kind {kind}")));
    let used = || node_memory(Path::new("/"), NodeId(1)).expect("a node").used_bytes >> 20;
    let used_before = used();
    let finished = nodeward("evacuate 1 --files --json --quiet");
    println!("node 1: {used_before} MiB in use before, {} MiB after", used());
    assert!(finished.code <= 1, "{finished:?}");
    let told: EvacuationJson = finished.json();
    println!("{:?}, {:?}, {}", told.processes, told.files.account, told.memory_after);
    assert!(told.processes.resident >= 2 && told.processes.denied == 0, "{told:?}");
    for load in &loads {
        let nodes = load.memory_by_node();
        assert!(on(&nodes, 1) * 50 < on(&nodes, 0), "less than 2 %: {nodes:?}");
    }
    let nodes = pages_by_node(&path);
    assert!(on(&nodes, 1) * 50 < 8 * MIB, "less than 2 %: {nodes:?}");
    let moved = told.moves["account"]["moved"].as_u64();
    assert!(moved.is_some_and(|moved| moved >= 16 * MIB), "{told:?}");
    let undone = nodeward(&format!("undo {} --json --quiet", told.moves["ledger"]["id"]));
    assert!(undone.code <= 1, "{undone:?}");
    for load in loads {
        let nodes = load.memory_by_node();
        assert!(on(&nodes, 0) * 50 < on(&nodes, 1), "back: {nodes:?}");
        load.end();
    }
    drop(open);
    move_file(&path, "1").json_after_exit::<FilesReport>(0);
    assert_eq!(pages_by_node(&path), [(1, 8 * MIB)].into());
    assert_eq!(digest(&path), content);
    Ok(())
}
