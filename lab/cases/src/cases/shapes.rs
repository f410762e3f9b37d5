//! Processes with little memory in many addresses: sanitizers, garbage collectors and databases
//! reserve terabytes, or have tens of thousands of mappings.

use std::time::Duration;

use nodeward_linux::Linux;
use nodeward_machine::Machine;
use nodeward_model::SkipReason;
use rustix::process::Signal;
use serde_json::Value;

use super::ledger::id;
use super::races::rounds;
use crate::balancer::StateDir;
use crate::case_outcome::{CaseFn, CaseOutcome, CaseSkipped};
use crate::guest::{read, wait_until};
use crate::load::LoadProcess;
use crate::nodeward::{RunningMove, move_load, nodeward, skip_counts};

pub const CASES: [(&str, CaseFn); 9] = [
    ("reserved_addresses", reserved_addresses),
    ("reserved_addresses_undone", reserved_addresses_undone),
    ("many_mappings", many_mappings),
    ("most_mappings", most_mappings),
    ("mappings_come_and_go", mappings_come_and_go),
    ("balanced_shapes", balanced_shapes),
    ("stopped_while_looking", stopped_while_looking),
    ("stopped_while_it_waits_for_its_rate", stopped_while_it_waits_for_its_rate),
    ("stopped_before_moving", stopped_before_moving),
];

/// Goal: of 1, 20 and 64 TiB of addresses some MiB of pages move and are verified, exactly, on each
/// kernel: looking at each address would take longer than the guest has (300 s for 16 TiB on 6.1).
fn reserved_addresses() -> CaseOutcome {
    for shape in [
        "--size 8000KiB --over 1TiB",
        "--size 8000KiB --over 64TiB",
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

/// Goal: as many mappings as a process may have (vm.max_map_count, 65,530) move and are shown, and
/// the balancer looks at them.
fn most_mappings() -> CaseOutcome {
    let load = LoadProcess::start("--node 0 --threads 0 --size 261600KiB --mappings 65400");
    let report = move_load(&load, "0 1").report_after_exit(0);
    assert_eq!(report.account.skipped, skip_counts([]));
    assert_eq!(load.memory_by_node(), [(1, 65_400)].into());
    shows_all_on_node_1(&load);
    let balanced = nodeward(&format!("balance --once --dry-run --json --pid {}", load.pid()));
    let told: Value = balanced.json_after_exit(0);
    assert_eq!(told["processes"][0]["pid"], load.pid(), "{told}");
    load.end();
    Ok(())
}

/// Goal: mappings that come, grow, are split and go while the kernel counts their pages are not
/// taken for others: each page is accounted for, none is lost, and no look takes longer than the
/// guest has.
fn mappings_come_and_go() -> CaseOutcome {
    let load = LoadProcess::start(
        "--node 0 --size 8000KiB --over 1TiB --mappings 100 --race unmap,grow --race-size 1MiB \
         --pause 1ms --unbind",
    );
    let busy = [SkipReason::NotPresent, SkipReason::Pinned];
    rounds(&load, &busy.into(), |words| move_load(&load, words));
    for how in ["", "--exact"] {
        let told: Value = nodeward(&format!("show --json {how} {}", load.pid())).json_after_exit(0);
        let pages = told["processes"][0]["total"]["pages"].as_u64();
        assert!(pages.is_some_and(|pages| pages >= load.ready.pages), "{how}: {told}");
    }
    assert!(load.end().races > 0);
    Ok(())
}

/// Goal: what the balancer's rounds cost follows the pages that a process has, and neither its
/// addresses nor, by much, its mappings: 20 rounds beside each shape and beside a plain process of
/// as many pages, in CPU time.
fn balanced_shapes() -> CaseOutcome {
    let plain = cpu_time_of_rounds("--size 8000KiB");
    for (shape, ratio_max) in [
        ("--size 8000KiB --over 16TiB", 4.0),
        ("--size 7MiB --over 20TiB --mappings 8", 4.0),
        ("--size 120000KiB --mappings 30000", 15.0),
    ] {
        let took = cpu_time_of_rounds(shape);
        let ratio = took.as_secs_f64() / plain.as_secs_f64();
        println!("{shape}: {took:.2?}, {ratio:.2} times a plain process");
        assert!(ratio < ratio_max, "{shape}: {took:?} {plain:?}");
    }
    Ok(())
}

/// Returns the CPU time of a balancer in 20 rounds, the first of which look at a process.
fn cpu_time_of_rounds(shape: &str) -> Duration {
    let load = LoadProcess::start(&format!("--node 0 --pause 1ms {shape}"));
    let place = StateDir::new("shapes");
    let mut balancer = place.start(&format!("--pid {} --move-memory=false", load.pid()));
    for _ in 0..20 {
        balancer.next_round();
    }
    let took = cpu_time(balancer.pid());
    balancer.stop().assert_success();
    load.end();
    took
}

/// The CPU time of a process: fields 14 and 15 of its stat, in hundredths of a second.
fn cpu_time(pid: u32) -> Duration {
    let stat = read(&format!("/proc/{pid}/stat"));
    let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields).split(' ');
    let ticks: u64 = fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

/// Goal: a move ends at a signal that looks for pages in 16 TiB, where they are at places like no
/// program's and looking takes minutes: a pace keeps it from leaving the look to the kernel. It
/// tells what it has not looked at, and that nothing is verified.
fn stopped_while_looking() -> CaseOutcome {
    if Linux::open().capabilities().pagemap_scan {
        return Err(CaseSkipped("this kernel lists what is populated, in no time".to_owned()));
    }
    for signal in [Signal::INT, Signal::TERM] {
        let load = LoadProcess::start("--node 0 --threads 0 --size 8000KiB --over 16TiB");
        let underway = RunningMove::start(&load, "0 1 --rate 1GiB/s --stall 1s");
        wait_until("signals are taken", || underway.takes_signals());
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

/// Goal: a move ends at a signal that waits for its rate, a page in four seconds.
fn stopped_while_it_waits_for_its_rate() -> CaseOutcome {
    for signal in [Signal::INT, Signal::TERM] {
        let load = LoadProcess::start("--node 0 --threads 0 --size 8000KiB");
        let only = format!("0 1 --rate 1KiB/s --range {}", load.ready.range);
        let underway = RunningMove::start(&load, &only);
        wait_until("a page arrives", || load.memory_by_node().contains_key(&1));
        underway.signal(signal);
        let report = underway.finish().report_after_exit(130);
        assert!(report.interrupted && report.account.moved < 1000, "{report:?}");
        assert_eq!(report.account.selected(), 2000);
        load.end();
    }
    Ok(())
}

/// Goal: what looks at all of a process before it moves anything ends at a signal, too: of one that
/// is evened out, and of all in an evacuation. Nothing has moved then.
fn stopped_before_moving() -> CaseOutcome {
    if Linux::open().capabilities().pagemap_scan {
        return Err(CaseSkipped("this kernel lists what is populated, in no time".to_owned()));
    }
    let load = LoadProcess::start("--node 0 --threads 0 --size 8000KiB --over 16TiB");
    for signal in [Signal::INT, Signal::TERM] {
        for verb in [
            format!("spread --json {} 0,1", load.pid()),
            "evacuate --json --no-ledger --rate 1GiB/s 0".to_owned(),
        ] {
            let underway = RunningMove::of_verb(&verb);
            wait_until("signals are taken", || underway.takes_signals());
            underway.signal(signal);
            let output = underway.finish();
            assert_eq!(output.code, 130, "{verb}: {output:?}");
            assert_eq!(load.memory_by_node(), [(0, load.ready.pages)].into(), "{verb}");
        }
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
