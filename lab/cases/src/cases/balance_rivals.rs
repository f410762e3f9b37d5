//! Balancing beside the kernel's NUMA balancing: `--rivals cooperate` and `--rivals take-over`.

use rustix::process::Signal;

use crate::balancer::{
    BalancerProcess, NUMA_BALANCING, StateDir, assert_stayed, is_mostly_on, pid_options,
    start_load_away,
};
use crate::case_outcome::{CaseFn, CaseOutcome, CaseSkipped};
use crate::guest::{
    pin_this_thread, read, set_affinity, vmstat, wait_until, write, write_optional,
};
use crate::load::LoadProcess;

pub const CASES: [(&str, CaseFn); 5] = [
    ("balance_take_over", take_over),
    ("balance_take_over_killed", take_over_killed),
    ("balance_take_over_changed", take_over_changed),
    ("balance_cooperates", cooperates),
    ("balance_run_unscanned", run_unscanned),
];

/// Goal: while the balancer runs the kernel's balancing is off, and memory comes home; at SIGTERM
/// and at Ctrl-C each mode is what it was.
fn take_over() -> CaseOutcome {
    for (mode, signal) in [("1", Signal::TERM), ("2", Signal::INT)] {
        write_optional(NUMA_BALANCING, mode)?;
        let place = StateDir::new("take-over");
        let load = start_load_away("--size 8MiB");
        let mut balance = start(&place, &format!("{} --rivals take-over", pid_options(&[&load])));
        assert_eq!(numa_balancing(), "0");
        assert_eq!(balance.wait_until_home(&load), 1);
        balance.signal(signal);
        let ended = balance.end().assert_success();
        assert_eq!(numa_balancing(), mode, "{ended:?}");
        assert!(!has_record(&place), "{ended:?}");
        assert_eq!(ended.count("rival-came"), 0, "{ended:?}");
        load.end();
    }
    Ok(())
}

/// Goal: after a kill -9 the next start, whatever its settings, sets the sysctl to what it was.
fn take_over_killed() -> CaseOutcome {
    for mode in ["1", "2"] {
        write_optional(NUMA_BALANCING, mode)?;
        let place = StateDir::new("take-over-killed");
        start(&place, "--rivals take-over").kill();
        assert_eq!((numa_balancing().as_str(), has_record(&place)), ("0", true));
        let mut next = start(&place, "--rivals stand-back");
        assert_eq!((numa_balancing().as_str(), has_record(&place)), (mode, false));
        next.wait_for_round("it stands back", |round| round.stands_back);
        let told = next.stop().assert_success().stderr;
        assert!(told.contains(&format!("on again (kernel.numa_balancing={mode})")), "{told}");
        assert_eq!(numa_balancing(), mode);
    }
    Ok(())
}

/// Goal: who sets the sysctl meanwhile has the last word, while the balancer runs and after a
/// kill -9; the balancer stands back and does not switch it off again.
fn take_over_changed() -> CaseOutcome {
    write_optional(NUMA_BALANCING, "1")?;
    let place = StateDir::new("take-over-changed");
    let mut balance = start(&place, "--rivals take-over");
    write(NUMA_BALANCING, "2");
    // Other balancers are searched for in each tenth round.
    balance.wait_for_round("it stands back", |round| round.stands_back);
    assert_eq!(numa_balancing(), "2");
    let told = balance.stop().assert_success().stderr;
    assert!(told.contains("somebody set kernel.numa_balancing=2 meanwhile"), "{told}");
    assert_eq!((numa_balancing().as_str(), has_record(&place)), ("2", false));
    start(&place, "--rivals take-over").kill();
    write(NUMA_BALANCING, "1");
    start(&place, "--rivals stand-back").stop().assert_success();
    assert_eq!((numa_balancing().as_str(), has_record(&place)), ("1", false));
    Ok(())
}

/// Goal: a balancer that cooperates makes its rounds beside the kernel, and memory comes home by
/// the one or the other. What the kernel moves is left alone, and has a home when the kernel is
/// done; we move no page twice.
fn cooperates() -> CaseOutcome {
    write_optional(NUMA_BALANCING, "1")?;
    if !read("/proc/self/sched").contains("numa_pages_migrated") {
        return Err(CaseSkipped("the kernel does not tell what it migrated".to_owned()));
    }
    let place = StateDir::new("cooperates");
    let load = start_load_away("--size 8MiB");
    let before = vmstat("numa_pages_migrated");
    let mut balance = start(&place, &format!("{} --rivals cooperate", pid_options(&[&load])));
    let mut left_alone = 0;
    balance.wait_for_round("memory is at home, and so is the process", |round| {
        assert!(!round.stands_back, "{round:?}");
        left_alone += u32::from(round.has_reason(load.pid(), "kernel-moves"));
        is_mostly_on(&load, 1) && round.home(load.pid()) == Some(1)
    });
    let (by_kernel, by_us) = (vmstat("numa_pages_migrated") - before, balance.moved_pages);
    println!(
        "pages moved: {by_kernel} by the kernel, {by_us} by us; left alone for {left_alone} rounds"
    );
    assert!(by_us <= load.ready.pages, "{by_us} of {}", load.ready.pages);
    balance.stop().assert_success();
    assert_eq!(numa_balancing(), "1");
    load.end();
    Ok(())
}

/// Goal: the kernel moves pages of a program, but none of one that `nodeward run
/// --no-kernel-balancing` started; a balancer that cooperates brings that home.
fn run_unscanned() -> CaseOutcome {
    write_optional(NUMA_BALANCING, "1")?;
    pin_this_thread(&[0]);
    let scanned = LoadProcess::start("--size 8MiB");
    let words = "run --no-kernel-balancing -- nodeward-load --size 8MiB";
    let unscanned = LoadProcess::start_through("nodeward", words);
    pin_this_thread(&[0, 1]);
    [scanned.pid(), unscanned.pid()].iter().for_each(|&pid| set_affinity(pid, &[1]));
    wait_until("the kernel moved the one", || is_mostly_on(&scanned, 1));
    scanned.end();
    assert_stayed(&unscanned, 0);
    let place = StateDir::new("unscanned");
    let mut balance = start(&place, &format!("{} --rivals cooperate", pid_options(&[&unscanned])));
    assert_eq!(balance.wait_until_home(&unscanned), 1);
    assert!(balance.moved_pages >= unscanned.ready.pages, "{}", balance.moved_pages);
    balance.stop().assert_success();
    unscanned.end();
    Ok(())
}

/// Starts a balancer and waits for its first round.
fn start(place: &StateDir, words: &str) -> BalancerProcess {
    let mut balance = place.start(words);
    balance.next_round();
    balance
}

fn numa_balancing() -> String {
    read(NUMA_BALANCING).trim().to_owned()
}

fn has_record(place: &StateDir) -> bool {
    place.path().join("balance.takeover").exists()
}
