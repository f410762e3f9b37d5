//! Exactly the selected memory is moved, in the requested way.

use nodeward_model::SkipReason;
use serde_json::Value;

use crate::case_outcome::{CaseFn, CaseOutcome};
use crate::guest::vmstat;
use crate::load::LoadProcess;
use crate::nodeward::{move_load, nodeward, skip_counts};

pub const CASES: [(&str, CaseFn); 10] = [
    ("dry_run", dry_run),
    ("only", only),
    ("exclude", exclude),
    ("range", range),
    ("rate", || paced("--rate 1GB/s")),
    ("stall", || paced("--stall 1ms")),
    ("stall_huge", stall_huge),
    ("family", family),
    ("by_name", by_name),
    ("several_nodes", several_nodes),
];

/// Goal: a dry run reports what would move, and moves nothing.
fn dry_run() -> CaseOutcome {
    let load = LoadProcess::start("--node 0 --size 8MiB --threads 0");
    let before = load.pages_by_node();
    let finished = move_load(&load, "0 1 --dry-run");
    assert_eq!(finished.code, 0, "{finished:?}");
    let plan: Value = finished.json();
    let moves = &plan["processes"][0]["moves"];
    assert_eq!(*moves, serde_json::json!([{ "from": 0, "to": 1, "pages": before[&0] }]), "{plan}");
    assert_eq!(load.pages_by_node(), before);
    load.end();
    Ok(())
}

/// Goal: only the named kinds move.
fn only() -> CaseOutcome {
    let load = LoadProcess::start("--node 0 --size 8MiB --threads 0");
    let before = load.memory_by_node();
    let report = move_load(&load, "0 1 --only heap,stack").report_after_exit(0);
    assert!((1..load.ready.pages).contains(&report.account.moved), "{report:?}");
    assert_eq!(load.memory_by_node(), before);
    load.end();
    Ok(())
}

/// Goal: all but the named kinds move.
fn exclude() -> CaseOutcome {
    let load = LoadProcess::start("--node 0 --size 8MiB --kind heap");
    let heap = load.memory_by_node();
    let report = move_load(&load, "0 1 --exclude anonymous,file,stack").report_after_exit(0);
    assert!(report.account.moved >= load.ready.pages, "{report:?}");
    assert_eq!(load.memory_by_node().get(&0), None, "{heap:?}");
    load.end();
    Ok(())
}

/// Goal: exactly the pages of a range move, each once, also where ranges overlap.
fn range() -> CaseOutcome {
    let load = LoadProcess::start("--node 0 --size 8MiB");
    let memory = load.range();
    let part = |from: u64, to: u64| {
        format!("--range {:x}-{:x}", memory.start + from * 4096, memory.start + to * 4096)
    };
    let words = format!("0 1 {} {} {}", part(100, 200), part(150, 300), part(1000, 1001));
    let report = move_load(&load, &words).report_after_exit(0);
    assert_eq!((report.account.moved, report.account.selected()), (201, 201), "{report:?}");
    assert_eq!(load.memory_by_node()[&1], 201);
    load.end();
    Ok(())
}

/// Goal: a budget changes when pages move, not which.
fn paced(how: &str) -> CaseOutcome {
    let load = LoadProcess::start("--node 0 --size 16MiB --probe");
    let before = load.pages_by_node();
    let report = move_load(&load, &format!("0 1 {how}")).report_after_exit(0);
    assert!(report.account.moved >= before[&0], "{report:?} of {before:?}");
    assert!(load.pages_by_node().get(&0).is_none_or(|&pages| pages < load.ready.pages / 100));
    load.end();
    Ok(())
}

/// Goal: huge pages are moved one at a time or skipped because of the budget, never anything else.
fn stall_huge() -> CaseOutcome {
    let load = LoadProcess::start("--node 0 --size 16MiB --kind thp");
    let finished = move_load(&load, &format!("0 1 --stall 50us --range {}", load.ready.range));
    let account = finished.json::<crate::nodeward::MoveJson>().account;
    println!("huge pages within 50 us: {account:?}");
    let skipped = account.skipped_for(SkipReason::StallBudget);
    assert_eq!(account.skipped_total(), skipped, "{account:?}");
    assert_eq!(account.selected(), load.ready.pages);
    assert_eq!(load.memory_by_node().get(&0).copied().unwrap_or(0), skipped);
    load.end();
    Ok(())
}

/// Goal: of processes that share pages each page is moved once, and each process has its account.
fn family() -> CaseOutcome {
    let load = LoadProcess::start("--node 0 --size 8MiB --fork 2 --threads 0");
    let pids: Vec<String> = load.ready.children.iter().map(u32::to_string).collect();
    let migrated = vmstat("pgmigrate_success");
    let words = format!("move --json --quiet {} {} 0 1", load.pid(), pids.join(" "));
    let report = nodeward(&words).report_after_exit(0);
    println!("family: {:?}", report.account);
    let moved = vmstat("pgmigrate_success") - migrated;
    assert!(moved < load.ready.pages * 3 / 2, "{moved} moves in the kernel: each page once");
    for process in &report.processes {
        let account = &process.account;
        assert!(account.selected() >= load.ready.pages, "{report:?}");
        assert_eq!(account.skipped, skip_counts([]), "{report:?}");
        assert_eq!(process.after().get(&0), None, "{report:?}");
    }
    load.end();
    Ok(())
}

/// Goal: processes are found by their name.
fn by_name() -> CaseOutcome {
    let loads = [(); 2].map(|()| LoadProcess::start("--node 0 --size 2MiB"));
    let report = nodeward("move --json --quiet --name nodeward-load 0 1").report_after_exit(0);
    assert_eq!(report.processes.len(), 2);
    for load in loads {
        assert_eq!(load.pages_by_node().get(&0), None);
        load.end();
    }
    Ok(())
}

/// Goal: several nodes keep their relative position. (The machine has nodes 0, 1, 3 and 4.)
fn several_nodes() -> CaseOutcome {
    let loads = [0, 1].map(|node| LoadProcess::start(&format!("--node {node} --size 4MiB")));
    for (load, (from, to)) in loads.iter().zip([(0, 3), (1, 4)]) {
        let before = load.memory_by_node();
        move_load(load, "0,1 3,4").report_after_exit(0);
        let after = load.memory_by_node();
        assert_eq!(after[&to], before[&from], "{before:?} {after:?}");
        assert!(!after.contains_key(&from), "{after:?}");
    }
    for load in loads {
        load.end();
    }
    Ok(())
}
