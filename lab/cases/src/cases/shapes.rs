//! Processes with little memory in many addresses: sanitizers, garbage collectors and databases
//! reserve terabytes, or have tens of thousands of mappings.

use nodeward_linux::Linux;
use nodeward_machine::Machine;
use nodeward_model::SkipReason;
use rustix::process::Signal;
use serde_json::Value;

use super::ledger::id;
use crate::case_outcome::{CaseFn, CaseOutcome, CaseSkipped};
use crate::guest::wait_until;
use crate::load::LoadProcess;
use crate::nodeward::{RunningMove, move_load, nodeward, skip_counts};

pub const CASES: [(&str, CaseFn); 5] = [
    ("reserved_addresses", reserved_addresses),
    ("reserved_addresses_undone", reserved_addresses_undone),
    ("many_mappings", many_mappings),
    ("stopped_while_looking", stopped_while_looking),
    ("stopped_before_moving", stopped_before_moving),
];

/// Goal: of 1, 16 and 20 TiB of addresses some MiB of pages move and are verified, exactly, on each
/// kernel: looking at each address would take longer than the guest has (300 s for 16 TiB on 6.1).
fn reserved_addresses() -> CaseOutcome {
    for shape in [
        "--size 8000KiB --over 1TiB",
        "--size 8000KiB --over 16TiB",
        "--size 7MiB --over 20TiB --mappings 8",
    ] {
        let load = LoadProcess::start(&format!("--node 0 {shape}"));
        let report = move_load(&load, "0 1").report_after_exit(0);
        assert_eq!(report.account.skipped, skip_counts([]), "{shape}");
        assert!(report.account.moved >= load.ready.pages, "{shape}: {report:?}");
        assert_eq!(*report.processes[0].after(), load.pages_by_node(), "{shape}");
        assert_eq!(load.memory_by_node(), [(1, load.ready.pages)].into(), "{shape}");
        shows_all_on_node_1(&load);
        load.end();
    }
    Ok(())
}

/// Goal: where the kernel told no addresses, the undo says that it lacks pages; elsewhere it takes
/// all back.
fn reserved_addresses_undone() -> CaseOutcome {
    let load = LoadProcess::start("--node 0 --threads 0 --size 4MiB --over 16TiB");
    let undone = nodeward(&format!("undo {}", id(&move_load(&load, "0 1"))));
    assert_eq!(undone.code, 0, "{undone:?}");
    let lists = Linux::open().capabilities().pagemap_scan;
    let home = if lists { 0 } else { 1 };
    assert_eq!(load.memory_by_node(), [(home, load.ready.pages)].into(), "{undone:?}");
    assert_eq!(undone.stderr.contains("moved more than its ledger holds"), !lists, "{undone:?}");
    load.end();
    Ok(())
}

/// Goal: 30,000 mappings of a page each move, and each is counted once.
fn many_mappings() -> CaseOutcome {
    let load = LoadProcess::start("--node 0 --threads 0 --size 120000KiB --mappings 30000");
    let report = move_load(&load, "0 1").report_after_exit(0);
    assert_eq!(report.account.skipped, skip_counts([]));
    assert_eq!(*report.processes[0].after(), load.pages_by_node());
    shows_all_on_node_1(&load);
    let back = move_load(&load, &format!("1 0 --range {}", load.ready.range)).report_after_exit(0);
    assert_eq!((load.ready.pages, back.account.moved), (30_000, 30_000));
    load.end();
    Ok(())
}

/// Goal: a move that looks at 16 TiB page by page, which takes many minutes, ends at a signal; it
/// tells what it has not looked at, and that nothing is verified. A pace keeps it from leaving the
/// look to the kernel.
fn stopped_while_looking() -> CaseOutcome {
    if Linux::open().capabilities().pagemap_scan {
        return Err(CaseSkipped("this kernel lists what is populated, in no time".to_owned()));
    }
    for signal in [Signal::INT, Signal::TERM] {
        let load = LoadProcess::start("--node 0 --threads 0 --size 8000KiB --over 16TiB");
        let underway = RunningMove::start(&load, "0 1 --rate 1GiB/s --stall 1s");
        wait_until("a page arrives", || load.memory_by_node().contains_key(&1));
        underway.signal(signal);
        let output = underway.finish();
        let report = output.report_after_exit(130);
        let told: Value = output.json();
        let unexamined = told["processes"][0]["unexamined_bytes"].as_u64().unwrap_or(0);
        assert!(report.interrupted && unexamined > 8 << 40, "{output:?}");
        assert_eq!(told["verified"], false, "{output:?}");
        assert!(report.account.skipped.keys().all(|&it| it == SkipReason::Interrupted));
        load.end();
    }
    Ok(())
}

/// Goal: what looks at all of a process before it moves anything ends at a signal, too: of two
/// processes counted together, and of one that is evened out. Nothing has moved then.
fn stopped_before_moving() -> CaseOutcome {
    if Linux::open().capabilities().pagemap_scan {
        return Err(CaseSkipped("this kernel lists what is populated, in no time".to_owned()));
    }
    let load = LoadProcess::start("--node 0 --threads 0 --size 8000KiB --over 16TiB");
    for signal in [Signal::INT, Signal::TERM] {
        let underway = RunningMove::of_verb(&format!("spread --json {} 0,1", load.pid()));
        wait_until("signals are taken", || underway.takes_signals());
        underway.signal(signal);
        let output = underway.finish();
        assert_eq!((output.code, output.stdout.as_str()), (130, ""), "{output:?}");
        assert_eq!(load.memory_by_node(), [(0, load.ready.pages)].into());
    }
    load.end();
    Ok(())
}

fn shows_all_on_node_1(load: &LoadProcess) {
    for how in ["", "--exact"] {
        let shown = nodeward(&format!("show --json {how} {}", load.pid()));
        let told: Value = shown.json_after_exit(0);
        let nodes = told["processes"][0]["total"]["nodes"].as_object();
        let nodes: Vec<&String> = nodes.into_iter().flat_map(|nodes| nodes.keys()).collect();
        assert_eq!(nodes, ["1"], "{how}: {told}");
    }
}
