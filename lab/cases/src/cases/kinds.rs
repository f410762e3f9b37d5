//! Each kind of memory moves whole, and the account agrees with numa_maps.

use rustix::process::Signal;
use serde_json::Value;

use crate::case_outcome::{CaseFn, CaseOutcome};
use crate::guest::{UNPRIVILEGED_USER, is_kernel, kib, vmstat, wait_until, write, write_optional};
use crate::load::LoadProcess;
use crate::nodeward::{MoveJson, move_load, move_load_as};
use crate::numa_maps::PagesByNode;

pub const CASES: [(&str, CaseFn); 12] = [
    ("heap", || kind("heap")),
    ("anonymous", || kind("anonymous")),
    ("shared", || kind("shared")),
    ("file", || kind("file")),
    ("page_cache", || kind("page-cache")),
    ("stack", || kind("stack")),
    ("mlocked", mlocked),
    ("thp", thp),
    ("thp_split", thp_split),
    ("collapse", collapse),
    ("anonymous_without_privilege", anonymous_without_privilege),
    ("thp_without_privilege", thp_without_privilege),
];

/// Moves everything there while the load writes, and back while it is stopped.
fn kind(name: &str) -> CaseOutcome {
    let load = LoadProcess::start(&format!("--node 0 --size 8MiB --kind {name}"));
    there_and_back(&load);
    load.end();
    Ok(())
}

/// While the load is stopped, before and after can be compared with numa_maps page by page.
pub fn there_and_back(load: &LoadProcess) {
    let account = move_load(load, "0 1").report_after_exit(0).account;
    assert!(account.moved >= load.ready.pages, "{account:?} of {:?}", load.ready);
    load.stop();
    for (from, to) in [(1, 0), (0, 1)] {
        let before = load.pages_by_node();
        let report = move_load(load, &format!("{from} {to}")).report_after_exit(0);
        check_whole(load, &before, &report, (from, to));
    }
    load.signal(Signal::CONT);
}

/// Checks that all pages moved, and that before and after agree with numa_maps.
fn check_whole(
    load: &LoadProcess,
    before: &PagesByNode,
    report: &MoveJson,
    (from, to): (u32, u32),
) {
    let count = |nodes: &PagesByNode, node| nodes.get(&node).copied().unwrap_or(0);
    let account = &report.account;
    assert_eq!(account.skipped_total(), 0, "{account:?}");
    assert!(account.moved >= load.ready.pages, "{account:?} of {:?}", load.ready);
    assert_eq!(account.moved, count(before, from), "moved is what was there: {before:?}");
    assert_eq!(account.already_there, count(before, to), "{before:?}");
    assert_eq!(report.processes[0].before_pages, *before);
    let after = load.pages_by_node();
    assert_eq!(*report.processes[0].after(), after, "{account:?}");
    assert_eq!(count(&after, from), 0, "{after:?}");
}

/// Goal: locked memory moves and is locked afterwards.
fn mlocked() -> CaseOutcome {
    let load = LoadProcess::start("--node 0 --size 8MiB --kind mlocked");
    let locked = || kib(&format!("/proc/{}/status", load.pid()), "VmLck");
    let before = locked();
    assert!(before >= 8 << 10, "{before} kB");
    there_and_back(&load);
    assert_eq!(locked(), before);
    load.end();
    Ok(())
}

/// Goal: a transparent huge page moves as one folio, by one address, and is not split.
fn thp() -> CaseOutcome {
    // khugepaged would fill sparse ranges while pages are compared.
    write_optional("/sys/kernel/mm/transparent_hugepage/khugepaged/max_ptes_none", "0")?;
    let load = LoadProcess::start("--node 0 --size 16MiB --kind thp");
    assert_eq!(load.ready.huge_bytes, Some(16 << 20));
    let huge = || kib(&format!("/proc/{}/smaps_rollup", load.pid()), "AnonHugePages");
    let plan: Value = move_load(&load, "0 1 --dry-run").json();
    assert_eq!(plan["processes"][0]["folios_by_pages"]["512"], 8, "{plan}");
    let counters =
        || ["thp_migration_success", "thp_migration_fail", "thp_migration_split"].map(vmstat);
    let before = counters();
    there_and_back(&load);
    let [whole, failed, split] = counters();
    assert_eq!(whole - before[0], 24, "eight folios, there and back and there");
    assert_eq!((failed - before[1], split - before[2]), (0, 0));
    assert_eq!(huge(), 16 << 10);
    load.end();
    Ok(())
}

/// Goal: transparent huge pages that would be held for too long stay, and with `--split-huge` go as
/// base pages; one is tried whole, as its time is not known. Nothing is split where that is not
/// allowed.
fn thp_split() -> CaseOutcome {
    const SETTING: &str = "/sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs";
    write_optional(SETTING, "4000000000")?;
    let load = LoadProcess::start_as(UNPRIVILEGED_USER, "--node 0 --size 16MiB --kind thp");
    let huge = || kib(&format!("/proc/{}/smaps_rollup", load.pid()), "AnonHugePages");
    assert_eq!(huge(), 16 << 10);
    let words = |rest: &str| format!("{rest} --jobs 1 --range {}", load.ready.range);
    let split = |nodes| words(&format!("{nodes} --split-huge --stall 1us"));
    move_load(&load, &words("0 1 --split-huge")).assert_refused(2, &["--stall 1ms"]);
    move_load_as(UNPRIVILEGED_USER, &load, &split("0 1")).assert_refused(4, &["CAP_SYS_NICE"]);
    let stays: Value = move_load(&load, &words("0 1 --stall 1us")).json_after_exit(1);
    assert_eq!(stays["account"]["skipped"]["stall-budget"], 7 * 512, "{stays}");
    assert_eq!((&stays["over_stall_pages"], &stays["split_folios"]), (&512.into(), &0.into()));
    assert_eq!(huge(), 16 << 10);
    let splits: Value = move_load(&load, &split("0 1")).json_after_exit(0);
    assert_eq!(splits["account"]["moved"], 7 * 512, "{splits}");
    // The first of the seven is tried whole.
    assert_eq!((&splits["over_stall_pages"], &splits["split_folios"]), (&512.into(), &6.into()));
    assert_eq!(huge(), 2 * (2 << 10));
    load.end();
    Ok(())
}

/// Goal: on request base pages that arrive are collapsed into huge pages where they are, and hold
/// what is written meanwhile. A kernel that cannot do that says so before anything moves; so it is
/// with a user who may not.
fn collapse() -> CaseOutcome {
    const ENABLED: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
    write_optional(ENABLED, "never")?;
    let load = LoadProcess::start_as(UNPRIVILEGED_USER, "--node 0 --size 16MiB --kind thp");
    assert_eq!(load.ready.huge_bytes, Some(0));
    write(ENABLED, "madvise");
    let words = format!("0 1 --collapse --range {}", load.ready.range);
    let before = load.memory_by_node();
    if is_kernel("5.10") {
        move_load(&load, &words).assert_refused(3, &["MADV_COLLAPSE", "Linux 6.1"]);
        assert_eq!(load.memory_by_node(), before);
        load.end();
        return Ok(());
    }
    move_load(&load, &format!("{words} --stall 1ms")).assert_refused(2, &["--stall unlimited"]);
    move_load_as(UNPRIVILEGED_USER, &load, &words).assert_refused(4, &["CAP_SYS_NICE"]);
    wait_until("all eight parts are huge pages", || {
        let report: Value = move_load(&load, &words).json_after_exit(0);
        let count = |name: &str| report["collapse"][name].as_u64().unwrap_or_default();
        let held = report["collapse"]["refused"]["held"].as_u64().unwrap_or_default();
        let huge = count("collapsed") + count("already_huge");
        assert_eq!(huge + held, 8, "{report}");
        huge == 8
    });
    assert_eq!(kib(&format!("/proc/{}/smaps_rollup", load.pid()), "AnonHugePages"), 16 << 10);
    assert_eq!(load.memory_by_node(), [(1, before[&0])].into());
    load.end();
    not_collapsed()
}

/// Goal: a program that does not want huge pages gets none, and the report says so.
fn not_collapsed() -> CaseOutcome {
    let load = LoadProcess::start("--node 0 --size 8MiB --kind mlocked");
    let words = format!("0 1 --collapse --range {}", load.ready.range);
    let report: Value = move_load(&load, &words).json_after_exit(0);
    assert_eq!(report["collapse"]["collapsed"], 0, "{report}");
    let refused = report["collapse"]["refused"]["not-eligible"].as_u64();
    assert!(refused >= Some(3), "8 MiB hold three whole parts wherever they begin: {report}");
    load.end();
    Ok(())
}

/// Goal: the owner of a process may move its private pages without any privilege.
fn anonymous_without_privilege() -> CaseOutcome {
    let load = LoadProcess::start_as(UNPRIVILEGED_USER, "--node 0 --size 8MiB --threads 0");
    let before = load.memory_by_node();
    let report =
        move_load_as(UNPRIVILEGED_USER, &load, "0 1 --only anonymous").report_after_exit(0);
    assert!(report.account.moved >= before[&0], "{report:?} of {before:?}");
    assert_eq!(load.memory_by_node(), [(1, before[&0])].into());
    load.end();
    Ok(())
}

/// Goal: where folios cannot be seen, each still moves whole and every page is counted once.
fn thp_without_privilege() -> CaseOutcome {
    let load =
        LoadProcess::start_as(UNPRIVILEGED_USER, "--node 0 --size 16MiB --kind thp --threads 0");
    let before = load.memory_by_node();
    let whole = vmstat("thp_migration_success");
    let range = &load.ready.range;
    let report = move_load_as(UNPRIVILEGED_USER, &load, &format!("0 1 --range {range}"))
        .report_after_exit(0);
    assert_eq!(report.account.moved, load.ready.pages, "{report:?}");
    assert_eq!(vmstat("thp_migration_success") - whole, 8);
    assert_eq!(load.memory_by_node(), [(1, before[&0])].into());
    load.end();
    Ok(())
}
