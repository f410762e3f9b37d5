//! A balancer without privileges, beside other balancers, and on a machine that changes under it.

use std::process::Command;

use crate::balancer::{KERNELS, Place, alone, assert_stayed, is_on, load_away, named};
use crate::guest::{SOMEBODY, let_run_on, run, run_on, set, write};
use crate::load::Load;
use crate::{Body, Ran, Skipped};

pub const CASES: [(&str, Body); 6] = [
    ("balance_without_privilege", without_privilege),
    ("balance_beside_the_kernel", beside_the_kernel),
    ("balance_full_disk", full_disk),
    ("balance_clock_jumps", clock_jumps),
    ("balance_node_without_cpus", node_without_cpus),
    ("balance_memory_offline", memory_offline),
];

/// Goal: without privileges our own processes come home; for those of other users it is reported
/// once that we may not balance them, with the remedy.
fn without_privilege() -> Ran {
    alone()?;
    let place = Place::new("somebody");
    run_on(&[1]);
    let own = Load::start_as(SOMEBODY, "--node 0 --unbind --size 8MiB");
    run_on(&[0, 1]);
    let others = load_away("--size 8MiB");
    let mut balance = place.start_as(SOMEBODY, "--name nodeward-load");
    assert_eq!(balance.until_home(&own), 1);
    for _ in 0..3 {
        balance.round();
    }
    assert_stayed(&others, 0);
    let ended = balance.stop().well();
    assert_eq!(ended.count("denied"), 1, "{ended:?}");
    let line = format!("process {} may not be balanced by us: ", others.pid());
    assert_eq!(ended.stderr.matches(&line).count(), 1, "{ended:?}");
    own.done();
    others.done();
    Ok(())
}

/// Goal: beside the kernel's NUMA balancing the balancer stands back without sampling, names it
/// once and says how to end it; when that has ended, it goes to work.
fn beside_the_kernel() -> Ran {
    set(KERNELS, "1")?;
    let place = Place::new("rival");
    let load = load_away("--size 8MiB");
    let mut balance = place.start(&named(&[&load]));
    balance.until("it stands back", |round| round.stands_back);
    let told = balance.stderr();
    let words = ["(kernel.numa_balancing=1) balances, too", "sysctl kernel.numa_balancing=0"];
    assert!(words.iter().all(|words| told.matches(words).count() == 1), "{told}");
    for _ in 0..3 {
        let round = balance.round_now();
        let seen = (round.threads, round.looked, round.processes.len());
        assert_eq!(seen, (0, 0, 0), "who stands back looks at nobody");
    }
    assert_eq!((balance.moved_pages, balance.nudged), (0, 0));
    alone()?;
    // Other balancers are looked for in each tenth round.
    for _ in 0..10 {
        balance.round_now();
    }
    assert_eq!(balance.until_home(&load), 1);
    let ended = balance.stop().well();
    assert_eq!((ended.count("rival-came"), ended.count("rival-left")), (1, 1), "{ended:?}");
    load.done();
    Ok(())
}

/// Goal: without room for state and ledger the balancer says so once, and balances all the same.
fn full_disk() -> Ran {
    alone()?;
    let place = Place::new("full");
    let folder = place.folder().to_string_lossy().into_owned();
    run("mount", &["-t", "tmpfs", "-o", "size=16k", "none", &folder]);
    std::fs::write(place.folder().join("filler"), vec![0; 4 * 4096]).expect("room for a filler");
    let load = load_away("--size 8MiB");
    let mut balance = place.start(&named(&[&load]));
    assert_eq!(balance.until_home(&load), 1);
    for _ in 0..3 {
        balance.round();
    }
    let ended = balance.stop().well();
    println!("full disk: {}", ended.stderr.trim());
    assert_eq!((ended.count("state"), ended.count("ledger")), (1, 1), "{ended:?}");
    load.done();
    run("umount", &[&folder]);
    Ok(())
}

/// Goal: when the clock jumps by a day, forward or back, rounds go on and memory comes home.
fn clock_jumps() -> Ran {
    alone()?;
    let place = Place::new("clock");
    let mut balance = place.start("--name nodeward-load");
    for days in [1, -1] {
        let load = load_away("--size 8MiB");
        balance.until_arrivals(&load);
        jump(days * 86_400);
        assert_eq!(balance.until_home(&load), 1);
        load.done();
    }
    balance.stop().well();
    assert!(place.ledger().len() >= 2, "{:?}", place.ledger());
    Ok(())
}

fn jump(seconds: i64) {
    let output = Command::new("date").arg("+%s").output().expect("date starts");
    let now: i64 = String::from_utf8_lossy(&output.stdout).trim().parse().expect("a number");
    run("date", &["-s", &format!("@{}", now + seconds)]);
}

/// Goal: when the CPUs of its home go offline, a process gets another home, and its memory follows;
/// when they are back, nothing is wrong.
fn node_without_cpus() -> Ran {
    const SWITCH: &str = "/sys/devices/system/cpu/cpu1/online";
    alone()?;
    let place = Place::new("offline");
    let load = load_away("--size 8MiB");
    let mut balance = place.start(&named(&[&load]));
    assert_eq!(balance.until_home(&load), 1);
    let_run_on(load.pid(), &[0, 1]);
    balance.round();
    set(SWITCH, "0")?;
    assert_eq!(balance.until_home(&load), 0);
    write(SWITCH, "1");
    for _ in 0..3 {
        balance.round();
    }
    assert!([0, 1].iter().any(|&node| is_on(&load, node)));
    balance.stop().well();
    load.done();
    Ok(())
}

/// Goal: when the memory of its home goes offline, block after block, the kernel moves its pages
/// elsewhere, nothing is lost, and rounds go on; when it is back, the process comes home again.
fn memory_offline() -> Ran {
    alone()?;
    let place = Place::new("memory-offline");
    let load = load_away("--size 16MiB");
    let mut balance = place.start(&named(&[&load]));
    assert_eq!(balance.until_home(&load), 1);
    let blocks = memory_blocks(1);
    // Blocks with pages that the kernel cannot move stay online.
    let gone: Vec<&String> =
        blocks.iter().filter(|block| set(&format!("{block}/state"), "offline").is_ok()).collect();
    println!("{} of {} blocks of memory went offline", gone.len(), blocks.len());
    for _ in 0..3 {
        balance.round_now();
    }
    gone.iter().for_each(|block| write(&format!("{block}/state"), "online"));
    if gone.is_empty() {
        return Err(Skipped("no block of memory can go offline here".to_owned()));
    }
    assert_eq!(balance.until_home(&load), 1);
    balance.stop().well();
    load.done();
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
