//! A balancer without privileges, beside other balancers, and on a machine that changes under it.

use std::process::Command;

use crate::balancer::{
    NUMA_BALANCING, StateDir, assert_stayed, disable_numa_balancing, is_mostly_on, pid_options,
    start_load_away,
};
use crate::case_outcome::{CaseFn, CaseOutcome, CaseSkipped};
use crate::guest::{UNPRIVILEGED_USER, pin_this_thread, run, set_affinity, write, write_optional};
use crate::load::LoadProcess;

pub const CASES: [(&str, CaseFn); 6] = [
    ("balance_without_privilege", without_privilege),
    ("balance_beside_the_kernel", beside_the_kernel),
    ("balance_full_disk", full_disk),
    ("balance_clock_jumps", clock_jumps),
    ("balance_node_without_cpus", node_without_cpus),
    ("balance_memory_offline", memory_offline),
];

/// Goal: without privileges our own processes come home; for those of other users it is reported
/// once that we may not balance them, with the remedy.
fn without_privilege() -> CaseOutcome {
    disable_numa_balancing()?;
    let place = StateDir::new("somebody");
    pin_this_thread(&[1]);
    let own = LoadProcess::start_as(UNPRIVILEGED_USER, "--node 0 --unbind --size 8MiB");
    pin_this_thread(&[0, 1]);
    let others = start_load_away("--size 8MiB");
    let mut balance = place.start_as(UNPRIVILEGED_USER, "--name nodeward-load");
    assert_eq!(balance.wait_until_home(&own), 1);
    for _ in 0..3 {
        balance.next_round();
    }
    assert_stayed(&others, 0);
    let ended = balance.stop().assert_success();
    assert_eq!(ended.count("denied"), 1, "{ended:?}");
    let line = format!("process {} may not be balanced by us: ", others.pid());
    assert_eq!(ended.stderr.matches(&line).count(), 1, "{ended:?}");
    own.end();
    others.end();
    Ok(())
}

/// Goal: beside the kernel's NUMA balancing the balancer stands back, soon without sampling, names
/// it once and says how to end it; when that has ended, it goes to work.
fn beside_the_kernel() -> CaseOutcome {
    write_optional(NUMA_BALANCING, "1")?;
    let place = StateDir::new("rival");
    let load = start_load_away("--size 8MiB");
    let mut balance = place.start(&pid_options(&[&load]));
    // The first rounds look at processes, to tell what would be done.
    balance.wait_for_round("it stands back", |round| round.stands_back && round.threads == 0);
    let told = balance.stderr();
    let words = ["(kernel.numa_balancing=1) balances, too", "sysctl kernel.numa_balancing=0"];
    assert!(words.iter().all(|words| told.matches(words).count() == 1), "{told}");
    for _ in 0..3 {
        let round = balance.reload_and_next_round();
        let seen = (round.threads, round.looked, round.processes.len());
        assert_eq!(seen, (0, 0, 0), "who stands back looks at nobody");
    }
    assert_eq!((balance.moved_pages, balance.nudged), (0, 0));
    disable_numa_balancing()?;
    // Other balancers are looked for in each tenth round.
    for _ in 0..10 {
        balance.reload_and_next_round();
    }
    assert_eq!(balance.wait_until_home(&load), 1);
    let ended = balance.stop().assert_success();
    assert_eq!((ended.count("rival-came"), ended.count("rival-left")), (1, 1), "{ended:?}");
    load.end();
    Ok(())
}

/// Goal: without room for state and ledger the balancer says so once, and balances all the same.
fn full_disk() -> CaseOutcome {
    disable_numa_balancing()?;
    let place = StateDir::new("full");
    let folder = place.path().to_string_lossy().into_owned();
    run("mount", &["-t", "tmpfs", "-o", "size=16k", "none", &folder]);
    std::fs::write(place.path().join("filler"), vec![0; 4 * 4096]).expect("room for a filler");
    let load = start_load_away("--size 8MiB");
    let mut balance = place.start(&pid_options(&[&load]));
    assert_eq!(balance.wait_until_home(&load), 1);
    for _ in 0..3 {
        balance.next_round();
    }
    let ended = balance.stop().assert_success();
    println!("full disk: {}", ended.stderr.trim());
    assert_eq!((ended.count("state"), ended.count("ledger")), (1, 1), "{ended:?}");
    load.end();
    run("umount", &[&folder]);
    Ok(())
}

/// Goal: when the clock jumps by a day, forward or back, rounds go on and memory comes home.
fn clock_jumps() -> CaseOutcome {
    disable_numa_balancing()?;
    let place = StateDir::new("clock");
    let mut balance = place.start("--name nodeward-load");
    for days in [1, -1] {
        let load = start_load_away("--size 8MiB");
        balance.wait_for_arrivals(&load);
        shift_clock(days * 86_400);
        assert_eq!(balance.wait_until_home(&load), 1);
        load.end();
    }
    balance.stop().assert_success();
    assert!(place.ledger().len() >= 2, "{:?}", place.ledger());
    Ok(())
}

fn shift_clock(seconds: i64) {
    let output = Command::new("date").arg("+%s").output().expect("date starts");
    let now: i64 = String::from_utf8_lossy(&output.stdout).trim().parse().expect("a number");
    run("date", &["-s", &format!("@{}", now + seconds)]);
}

/// Goal: when the CPUs of its home go offline, a process gets another home, and its memory follows;
/// when they are back, nothing is wrong.
fn node_without_cpus() -> CaseOutcome {
    const SWITCH: &str = "/sys/devices/system/cpu/cpu1/online";
    disable_numa_balancing()?;
    let place = StateDir::new("offline");
    let load = start_load_away("--size 8MiB");
    let mut balance = place.start(&pid_options(&[&load]));
    assert_eq!(balance.wait_until_home(&load), 1);
    set_affinity(load.pid(), &[0, 1]);
    balance.next_round();
    write_optional(SWITCH, "0")?;
    assert_eq!(balance.wait_until_home(&load), 0);
    write(SWITCH, "1");
    for _ in 0..3 {
        balance.next_round();
    }
    assert!([0, 1].iter().any(|&node| is_mostly_on(&load, node)));
    balance.stop().assert_success();
    load.end();
    Ok(())
}

/// Goal: when the memory of its home goes offline, block after block, the kernel moves its pages
/// elsewhere, nothing is lost, and rounds go on; when it is back, the process comes home again.
fn memory_offline() -> CaseOutcome {
    disable_numa_balancing()?;
    let place = StateDir::new("memory-offline");
    let load = start_load_away("--size 16MiB");
    let mut balance = place.start(&pid_options(&[&load]));
    assert_eq!(balance.wait_until_home(&load), 1);
    let blocks = memory_blocks(1);
    // Blocks with pages that the kernel cannot move stay online.
    let gone: Vec<&String> = blocks
        .iter()
        .filter(|block| write_optional(&format!("{block}/state"), "offline").is_ok())
        .collect();
    println!("{} of {} blocks of memory went offline", gone.len(), blocks.len());
    for _ in 0..3 {
        balance.reload_and_next_round();
    }
    gone.iter().for_each(|block| write(&format!("{block}/state"), "online"));
    if gone.is_empty() {
        return Err(CaseSkipped("no block of memory can go offline here".to_owned()));
    }
    assert_eq!(balance.wait_until_home(&load), 1);
    balance.stop().assert_success();
    load.end();
    Ok(())
}

/// Returns the memory blocks of a node.
fn memory_blocks(node: u32) -> Vec<String> {
    let folder = format!("/sys/devices/system/node/node{node}");
    let names = std::fs::read_dir(&folder).expect("the node is there");
    let names = names.map(|entry| entry.expect("an entry").file_name());
    let names = names.map(|name| name.to_string_lossy().into_owned());
    let number = |name: &str| name.strip_prefix("memory")?.parse::<u32>().ok();
    let is_block = |name: &String| number(name).is_some();
    names.filter(is_block).map(|name| format!("{folder}/{name}")).collect()
}
