//! `nodeward move --file` on special file systems: large folios, memory without a disk, huge pages,
//! a device that is memory itself.

use std::fs::{self, File};

use nodeward_linux::own_process::MappedArea;
use nodeward_linux::procfs::zoneinfo;
use nodeward_model::{Account, NodeId, SkipReason};

use super::files::{MIB, drop_caches, move_file, there_and_back};
use super::kinds_special::{ReclaimableCgroup, ZramSwap};
use crate::case_outcome::{CaseFn, CaseOutcome, CaseSkipped};
use crate::disk::{Disk, digest, map_populated, pages_by_node};
use crate::guest::{free_huge_pages, huge_pages, run, vmstat, wait_until, write};
use crate::nodeward::{CommandOutput, FilesReport, skip_counts};
use crate::numa_maps::PagesByNode;

pub const CASES: [(&str, CaseFn); 13] = [
    ("file_xfs", file_xfs),
    ("file_overlay", file_overlay),
    ("file_tmpfs", || tmpfs("rw")),
    ("file_tmpfs_huge", || tmpfs("huge=always")),
    ("file_tmpfs_swapped", file_tmpfs_swapped),
    ("file_ramfs", file_ramfs),
    ("file_hugetlbfs", file_hugetlbfs),
    ("file_hugetlbfs_without_a_pool", file_hugetlbfs_without_a_pool),
    ("file_hugetlbfs_with_holes", file_hugetlbfs_with_holes),
    ("file_dax", file_dax),
    ("file_root_system", file_root_system),
    ("file_destination_full", file_destination_full),
    ("file_over_cold_cache", file_over_cold_cache),
];

/// Goal: large folios move whole, clean and dirty.
fn file_xfs() -> CaseOutcome {
    let disk = Disk::xfs()?;
    let (path, content) = disk.write_clean("clean", 8);
    there_and_back(&path, content);
    let (path, content) = disk.write("dirty", 8);
    there_and_back(&path, content);
    let plan: serde_json::Value = move_file(&path, "0 --dry-run").json_after_exit(0);
    println!("folios of 8 MiB on xfs: {}", plan["folios_by_pages"]);
    run("sync", &[]);
    drop_caches();
    assert_eq!(digest(&path), content, "what is on the disk");
    Ok(())
}

/// Goal: a file of an overlay, as in containers, moves by the pages of the file below.
fn file_overlay() -> CaseOutcome {
    let below = Disk::xfs()?;
    let disk = Disk::overlay(&below);
    let (path, content) = disk.write("file", 16);
    there_and_back(&path, content);
    drop(disk);
    drop(below);
    Ok(())
}

/// Goal: files that live in memory alone move, in base pages and in huge ones.
fn tmpfs(options: &str) -> CaseOutcome {
    let disk = Disk::without_device("tmpfs", options);
    let (path, content) = disk.write("file", 16);
    there_and_back(&path, content);
    let plan: serde_json::Value = move_file(&path, "0 --dry-run").json_after_exit(0);
    let size = if options == "huge=always" { "512" } else { "1" };
    let folios = 16 * MIB / size.parse::<u64>().expect("a number");
    assert_eq!(plan["folios_by_pages"], serde_json::json!({ size: folios }), "{plan}");
    Ok(())
}

/// Goal: swapped pages of a file stay in swap; the rest moves.
fn file_tmpfs_swapped() -> CaseOutcome {
    let swap = ZramSwap::on()?;
    let disk = Disk::without_device("tmpfs", "rw");
    let group = ReclaimableCgroup::new("swapped-file");
    let (path, content) = group.run_inside(|| disk.write("file", 16));
    write("/proc/sys/vm/swappiness", "200");
    wait_until("pages are in swap", || {
        group.reclaim(4 << 20);
        vmstat("pswpout") >= MIB
    });
    let read_back = vmstat("pswpin");
    let report: FilesReport = move_file(&path, "1").json_after_exit(0);
    println!("partly in swap: {:?}", report.account);
    assert!((1..16 * MIB).contains(&report.account.moved), "{report:?}");
    assert_eq!(report.account.selected(), report.account.moved);
    assert_eq!(vmstat("pswpin"), read_back, "nothing was read back");
    assert_eq!(digest(&path), content);
    drop(disk);
    swap.off();
    Ok(())
}

/// Goal: the kernel considers pages of ramfs dirty and has no way to write them, so it moves none;
/// that is reported, and nothing is lost.
fn file_ramfs() -> CaseOutcome {
    let disk = Disk::without_device("ramfs", "rw");
    let (path, content) = disk.write("file", 1);
    let report: FilesReport = move_file(&path, "1").json_after_exit(3);
    println!("ramfs: {:?}", report.account);
    assert_eq!(report.account.skipped, skip_counts([(SkipReason::Pinned, MIB)]));
    assert_eq!(pages_by_node(&path), [(0, MIB)].into());
    assert_eq!(digest(&path), content);
    Ok(())
}

const HUGE_PAGES: u64 = 4;
const PAGES: u64 = HUGE_PAGES * 512;

/// Returns a file system with a file of huge pages on node 0, and the path of the file.
fn hugetlbfs() -> Result<(Disk, String), CaseSkipped> {
    let got = huge_pages(0, HUGE_PAGES);
    if got < HUGE_PAGES {
        return Err(CaseSkipped(format!("node 0 yields only {got} huge pages")));
    }
    huge_pages(1, 0);
    let disk = Disk::without_device("hugetlbfs", "rw");
    let path = disk.path("file");
    run("fallocate", &["-l", "8M", &path]);
    fill(&map_populated(&path));
    Ok((disk, path))
}

fn fill(area: &MappedArea) {
    let words = area.words().iter().zip(0..);
    words.for_each(|(word, number)| word.store(number, std::sync::atomic::Ordering::Relaxed));
}

fn is_filled(path: &str) -> bool {
    let area = map_populated(path);
    let mut words = area.words().iter().zip(0..);
    words.all(|(word, number)| word.load(std::sync::atomic::Ordering::Relaxed) == number)
}

fn end(disk: Disk, path: &str) {
    fs::remove_file(path).expect("the file can be removed");
    drop(disk);
    huge_pages(0, 0);
    huge_pages(1, 0);
}

/// Goal: huge pages of a file move to the pool of the other node, and back.
fn file_hugetlbfs() -> CaseOutcome {
    let (disk, path) = hugetlbfs()?;
    assert_eq!(huge_pages(1, HUGE_PAGES), HUGE_PAGES);
    for (to, from) in [(1, 0), (0, 1)] {
        let report: FilesReport = move_file(&path, &to.to_string()).json_after_exit(0);
        assert_eq!(report.account.moved, PAGES, "{report:?}");
        assert_eq!(report.account.selected(), PAGES);
        assert_eq!(pages_by_node(&path), [(to, PAGES)].into());
        assert_eq!((free_huge_pages(to), free_huge_pages(from)), (0, HUGE_PAGES));
    }
    assert!(is_filled(&path));
    end(disk, &path);
    Ok(())
}

/// Goal: without a pool on the destination the kernel makes the pages from free memory there.
fn file_hugetlbfs_without_a_pool() -> CaseOutcome {
    let (disk, path) = hugetlbfs()?;
    let report: FilesReport = move_file(&path, "1").json_after_exit(0);
    println!("without a pool: {:?}", report.account);
    assert_eq!(report.account.moved, PAGES, "{report:?}");
    assert_eq!(pages_by_node(&path), [(1, PAGES)].into());
    assert!(is_filled(&path));
    end(disk, &path);
    Ok(())
}

/// Goal: the existing pages of a file with holes are not known, so none is touched and none is
/// made.
fn file_hugetlbfs_with_holes() -> CaseOutcome {
    let (disk, path) = hugetlbfs()?;
    run("truncate", &["-s", "4M", &path]);
    run("truncate", &["-s", "8M", &path]);
    assert_eq!(free_huge_pages(0), HUGE_PAGES / 2);
    let report: FilesReport = move_file(&path, "1").json_after_exit(3);
    assert_eq!(report.looked.first_problems[0].trouble, "holes", "{report:?}");
    assert_eq!(free_huge_pages(0), HUGE_PAGES / 2, "no page was made");
    end(disk, &path);
    Ok(())
}

/// Goal: a file that is mapped from its device has no page cache, so there is nothing to move.
fn file_dax() -> CaseOutcome {
    let disk = Disk::dax()?;
    let (path, content) = disk.write("file", 8);
    let report: FilesReport = move_file(&path, "1").json_after_exit(0);
    println!("DAX: {:?} {:?}", report.looked, report.account);
    assert_eq!((report.looked.files, report.looked.files_cached), (1, 0), "{report:?}");
    assert_eq!(report.account.selected(), 0, "{report:?}");
    assert_eq!(digest(&path), content);
    Ok(())
}

/// Goal: the root file system comes to node 0, programs that run included. The kernel unpacks it on
/// either node, so without this nobody knows the room on a small one.
fn file_root_system() -> CaseOutcome {
    let report: FilesReport = move_file("/bin", "0").json_after_exit(0);
    println!("root: {:?} of {:?}", report.account, report.looked);
    let here = report.account.moved + report.account.already_there;
    assert_eq!(here, report.account.selected(), "{report:?}");
    assert!(here >= 16 * MIB, "{report:?}");
    Ok(())
}

/// Pages of a full node that the kernel itself may evict while programs run there; the check reads
/// them again, on another node.
const GIVEN_UP: u64 = 256;

/// A node with less headroom than this takes no more (`nodeward_policy::cache_headroom`).
const UNUSED_PAGES_MAX: u64 = 4096;

/// Goal: a node takes what it has room for, no page is evicted to make room for the rest, and the
/// rest is reported; a second move evicts nothing either. (Node 1 is small there.)
fn file_destination_full() -> CaseOutcome {
    let disk = Disk::ext4()?;
    let (path, content) = disk.write_clean("large", 128);
    let room = zoneinfo::headroom("/".as_ref()).expect("zoneinfo")[&NodeId(1)].free_pages;
    let mut moved = 0;
    for round in ["first", "second"] {
        let report: FilesReport = move_file(&path, "1").json_after_exit(1);
        println!("destination full, {round} move, room for {room}: {:?}", report.account);
        let [left, gone] = [SkipReason::NoMemory, SkipReason::NotPresent]
            .map(|reason| report.account.skipped_for(reason));
        assert_eq!(report.account.skipped_total(), left + gone, "{report:?}");
        assert!(gone <= GIVEN_UP, "{report:?}");
        assert_eq!(report.account.selected(), 128 * MIB, "{report:?}");
        let stayed = report.account.already_there + GIVEN_UP >= moved;
        assert!(stayed, "what came first is there: {report:?}");
        moved = report.account.moved + report.account.already_there;
        assert!(moved + UNUSED_PAGES_MAX >= room, "of {room}: {report:?}");
        let on = pages_by_node(&path);
        assert_eq!(on.values().sum::<u64>(), left + moved + gone, "{on:?}");
        let arrived = on[&1] <= moved + gone && on[&1] + GIVEN_UP >= moved;
        assert!(arrived, "{on:?}: {report:?}");
    }
    assert_eq!(digest(&path), content);
    Ok(())
}

/// Checks the failure on a destination without a pool, and with hardly memory to make a huge page
/// from.
pub fn huge_pages_have_no_room() -> CaseOutcome {
    let (disk, path) = hugetlbfs()?;
    let output = move_file(&path, "1");
    let report: FilesReport = output.json();
    check_huge_pages_left(&report.account, &output, &pages_by_node(&path));
    assert_eq!(report.account.selected(), PAGES);
    assert!(is_filled(&path));
    end(disk, &path);
    Ok(())
}

/// Checks that a full node took at most a part of the huge pages. The kernel may reclaim enough of
/// it to make one after all: that is then where the account says, and what stayed has its reason.
pub fn check_huge_pages_left(account: &Account, output: &CommandOutput, by_node: &PagesByNode) {
    let left = account.skipped_for(SkipReason::NoHugePage);
    assert!(left > 0, "{output:?}");
    assert_eq!(account.skipped, skip_counts([(SkipReason::NoHugePage, left)]), "{output:?}");
    let places = [(0, left), (1, account.moved)].into_iter().filter(|(_, pages)| *pages > 0);
    assert_eq!(*by_node, places.collect(), "{output:?}");
    assert_eq!(output.code, if account.moved == 0 { 3 } else { 1 }, "{output:?}");
}

/// Goal: cold files of others are evicted for a file that is wanted there. (Node 1 has 512 MiB.)
fn file_over_cold_cache() -> CaseOutcome {
    let disk = Disk::ext4()?;
    let cold = disk.path("cold");
    File::create(&cold).and_then(|file| file.set_len(320 << 20)).expect("a file of one hole");
    run("numactl", &["--cpunodebind=1", "--membind=1", "cat", &cold]);
    let (path, content) = disk.write_clean("wanted", 64);
    let report: FilesReport = move_file(&path, "1").json_after_exit(0);
    println!("over a cold cache: {:?}", report.account);
    assert_eq!(report.account.moved, 64 * MIB, "{report:?}");
    assert_eq!(pages_by_node(&path), [(1, 64 * MIB)].into());
    assert_eq!(digest(&path), content);
    Ok(())
}
