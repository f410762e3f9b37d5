//! Existing memory that is evened out over nodes.

use std::process;

use nodeward_linux::own_process::{AreaAdvice, fork_idle};
use nodeward_model::Account;
use serde::Deserialize;

use super::files::MIB;
use super::kinds_special::{SHARED, SHARED_FREE, shared_huge_pages};
use crate::case_outcome::{CaseFn, CaseOutcome};
use crate::disk::{Disk, digest, map_populated, pages_by_node};
use crate::guest::{free_huge_pages, huge_pages};
use crate::nodeward::{MoveJson, nodeward};
use crate::numa_maps::PagesByNode;

pub const CASES: [(&str, CaseFn); 2] =
    [("spread_segment", spread_segment), ("spread_hugetlb", spread_hugetlb)];

const SEGMENT_MIB: u64 = 64;

/// The part of a report that tells of spreading.
#[derive(Debug, Deserialize)]
pub struct SpreadJson {
    pub account: Account,
    pub ledger: SpreadLedger,
    segments: Option<SegmentRestField>,
    pub spread: SpreadField,
}

/// Which record of the ledger has it.
#[derive(Debug, Deserialize)]
pub struct SpreadLedger {
    pub id: u64,
}

#[derive(Debug, Deserialize)]
struct SegmentRestField {
    account: Account,
}

/// What spreading came to.
#[derive(Debug, Deserialize)]
pub struct SpreadField {
    pub after_pages: PagesByNode,
}

/// Spreads what these words name, after a look at what would be done.
fn spread(words: &str) -> SpreadJson {
    println!("$ nodeward spread {words} --dry-run");
    println!("{}", nodeward(&format!("spread --dry-run {words}")).stdout);
    spread_at_once(words)
}

/// Spreads what these words name.
pub fn spread_at_once(words: &str) -> SpreadJson {
    nodeward(&format!("spread --json --quiet {words}")).json_after_exit(0)
}

/// Goal: a segment on node 0 that two processes map is spread over both nodes, each page once, in
/// blocks of 2 MiB that alternate; an undo brings it back. Then once more after a process has
/// mapped a half of it only: the rest, which nobody maps, counts and moves, too.
fn spread_segment() -> CaseOutcome {
    let disk = Disk::without_device("tmpfs", "rw");
    let (path, content) = disk.write("segment", SEGMENT_MIB);
    let area = map_populated(&path);
    let child = fork_idle(600).expect("a child that shares it");
    let words = format!("{} {child} 0,1 --only shared", process::id());
    let all = SEGMENT_MIB * MIB;
    let told = spread(&words);
    assert_eq!((told.account.moved, told.account.skipped_total()), (all / 2, 0), "{told:?}");
    assert_even(&pages_by_node(&path), all);
    assert_even(&told.spread.after_pages, all);
    let again = spread(&words);
    assert_eq!(again.account.selected(), 0, "it is even: {again:?}");
    let undone: MoveJson =
        nodeward(&format!("undo --json --quiet {}", told.ledger.id)).report_after_exit(0);
    assert_eq!(undone.account.moved, all / 2, "{undone:?}");
    assert_eq!(pages_by_node(&path), [(0, all)].into());
    // Unmaps the first half: 32 MiB that no process maps.
    let half = area.bytes() / 2;
    area.advise_part(0..half, AreaAdvice::Discard).expect("pages of a file can be unmapped");
    let told = spread(&words);
    let rest = told.segments.as_ref().expect("what nobody maps").account.moved;
    assert_eq!((told.account.moved, rest), (all / 4, all / 4), "{told:?}");
    assert_even(&pages_by_node(&path), all);
    assert_eq!(digest(&path), content);
    drop(area);
    // The child maps it, too, until the guest ends.
    std::mem::forget(disk);
    Ok(())
}

/// Checks that each of two nodes has a half, within 2 %.
pub fn assert_even(nodes: &PagesByNode, all: u64) {
    let pages = |node| nodes.get(&node).copied().unwrap_or(0);
    assert_eq!(pages(0) + pages(1), all, "{nodes:?}");
    assert!(pages(0).abs_diff(pages(1)) * 50 <= all / 2, "{nodes:?}");
}

/// Goal: of 32 huge pages of a shared mapping on node 0 every other one goes to node 1, whole,
/// although a block is smaller.
fn spread_hugetlb() -> CaseOutcome {
    let area = shared_huge_pages()?;
    let told = spread(&format!("{} 0,1 --only huge --block 64KiB", process::id()));
    assert_eq!(told.account.moved, SHARED / 2 * 512, "{told:?}");
    assert_eq!(free_huge_pages(1), SHARED_FREE - SHARED / 2);
    drop(area);
    [0, 1].into_iter().for_each(|node| _ = huge_pages(node, 0));
    Ok(())
}
