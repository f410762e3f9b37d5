//! Segments of shared memory: pages that several processes map, and pages that none maps.

use std::sync::atomic::Ordering::Relaxed;

use nodeward_linux::own_process::fork_idle;
use serde::Deserialize;

use super::files::MIB;
use crate::case_outcome::{CaseFn, CaseOutcome};
use crate::disk::{Disk, digest, map_unpopulated, pages_by_node};
use crate::nodeward::nodeward;
use crate::numa_maps::PagesByNode;

pub const CASES: [(&str, CaseFn); 2] =
    [("segment_whole", segment_whole), ("segment_excluded", segment_excluded)];

const SEGMENT_MIB: u64 = 16;
/// Number of pages of the segment that its processes map.
const TOUCHED: u64 = 100;

/// The part of a report about segments.
#[derive(Debug, Deserialize)]
struct SegmentsMoveReport {
    processes: Vec<serde_json::Value>,
    segments: Option<SegmentsField>,
    together: Option<TotalField>,
}

#[derive(Debug, Deserialize)]
struct SegmentsField {
    found: u64,
    account: nodeward_model::Account,
}

#[derive(Debug, Deserialize)]
struct TotalField {
    before_pages: PagesByNode,
    after_pages: PagesByNode,
    moved_pages: u64,
}

/// Moves a segment on node 0, written by a process that has ended, and mapped by three that touch
/// little of it: this one and two children. They are selected by name.
fn moved(options: &str, check: impl FnOnce(&SegmentsMoveReport, &PagesByNode)) -> CaseOutcome {
    let disk = Disk::without_device("tmpfs", "rw");
    let (path, content) = disk.write("segment", SEGMENT_MIB);
    let area = map_unpopulated(&path);
    let first = area.words().iter().step_by(512).take(TOUCHED as usize);
    let sum: u64 = first.map(|word| word.load(Relaxed) & 1).sum();
    assert!(sum <= TOUCHED);
    for _ in 0..2 {
        fork_idle(600).expect("a child that shares it");
    }
    let words = format!("move --json --quiet --name nodeward-cases 0 1 {options}");
    let told: SegmentsMoveReport =
        serde_json::from_str(&nodeward(&words).stdout).expect("a report");
    println!("{told:?}");
    assert!(told.processes.len() >= 3, "{told:?}");
    drop(area);
    check(&told, &pages_by_node(&path));
    assert_eq!(digest(&path), content);
    // Children map it, too, until the guest ends.
    std::mem::forget(disk);
    Ok(())
}

/// Goal: a segment that processes share is moved whole, including pages that none of them maps, and
/// the total over all processes counts each page once.
fn segment_whole() -> CaseOutcome {
    moved("", |told, places| {
        assert_eq!(*places, [(1, SEGMENT_MIB * MIB)].into(), "{told:?}");
        let segments = told.segments.as_ref().expect("segments");
        assert!(segments.found >= 1, "{told:?}");
        assert!(segments.account.moved >= SEGMENT_MIB * MIB - 512, "{told:?}");
        assert!(segments.account.skipped.is_empty(), "{told:?}");
        let together = told.together.as_ref().expect("all together");
        let total = |nodes: &PagesByNode| nodes.values().sum::<u64>();
        // The segment once, and for each of three processes less than as much again.
        let before = total(&together.before_pages);
        assert!((SEGMENT_MIB * MIB..3 * SEGMENT_MIB * MIB).contains(&before), "{told:?}");
        assert!(together.moved_pages >= SEGMENT_MIB * MIB, "{told:?}");
        assert!(together.after_pages[&1] >= SEGMENT_MIB * MIB, "{told:?}");
    })
}

/// Goal: excluding shared memory excludes segments.
fn segment_excluded() -> CaseOutcome {
    moved("--exclude shared", |told, places| {
        assert_eq!(*places, [(0, SEGMENT_MIB * MIB)].into(), "{told:?}");
        assert!(told.segments.is_none(), "{told:?}");
    })
}
