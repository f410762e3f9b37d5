//! Processes that end, change or move elsewhere while they are balanced.

use rustix::process::Signal;

use crate::balancer::{
    RoundLine, StateDir, assert_stayed, disable_numa_balancing, pid_options, share_permille,
    start_load_away,
};
use crate::case_outcome::{CaseFn, CaseOutcome, CaseSkipped};
use crate::guest::{Cpuset, affinities, set_affinity, write};
use crate::load::LoadProcess;

pub const CASES: [(&str, CaseFn); 4] = [
    ("balance_targets_end", targets_end),
    ("balance_targets_fork", targets_fork),
    ("balance_targets_go_elsewhere", targets_go_elsewhere),
    ("balance_pid_comes_back", pid_comes_back),
];

/// Slow enough that a move takes several rounds.
const SLOWLY: &str = "--budget-per-process 4MiB/s";
/// The file that sets the pid of the next process.
const LAST_PID: &str = "/proc/sys/kernel/ns_last_pid";

/// Goal: processes that end or become another program while their memory is moving cause no errors:
/// nothing is reported about them, and others come home.
fn targets_end() -> CaseOutcome {
    disable_numa_balancing()?;
    let place = StateDir::new("end");
    let mut balance = place.start(SLOWLY);
    for signal in [Signal::TERM, Signal::KILL] {
        let load = start_load_away("--size 16MiB");
        let pid = load.pid();
        balance.wait_for_arrivals(&load);
        load.signal(signal);
        balance.wait_for_round("it is forgotten", |round| round.process(pid).is_none());
    }
    let other = start_load_away("--size 16MiB");
    balance.wait_for_arrivals(&other);
    other.signal(Signal::HUP); // it calls exec
    let load = start_load_away("--size 8MiB");
    assert_eq!(balance.wait_until_home(&load), 1);
    let round = balance.next_round();
    assert!(round.process(other.pid()).is_some(), "{round:?}");
    balance.stop().assert_success();
    load.end();
    Ok(())
}

/// Goal: a process that forks all the time comes home all the same; pages that its children shared
/// with it during the move may stay, and nothing is lost.
fn targets_fork() -> CaseOutcome {
    disable_numa_balancing()?;
    let place = StateDir::new("fork");
    let load = start_load_away("--size 16MiB --race fork");
    let mut balance = place.start(&pid_options(&[&load]));
    let round = balance.wait_for_round("it is settled", |round| {
        let row = round.process(load.pid());
        round.settled && row.is_some_and(|row| row.memory_reason.is_some())
    });
    assert_eq!(round.home(load.pid()), Some(1));
    println!("{} thousandths at home; {:?}", share_permille(&load, 1), round.process(load.pid()));
    balance.stop().assert_success();
    let done = load.end();
    assert!(done.races > 0, "{done:?}");
    Ok(())
}

/// Goal: a process that changes its own affinity, or is put into another cpuset, gets a home where
/// it may run; its own settings stand.
fn targets_go_elsewhere() -> CaseOutcome {
    disable_numa_balancing()?;
    let place = StateDir::new("elsewhere");
    let load = start_load_away("--size 8MiB");
    let mut balance = place.start(&format!("{}{SLOWLY}", pid_options(&[&load])));
    balance.wait_for_arrivals(&load);
    set_affinity(load.pid(), &[0]);
    balance.wait_for_round("its home follows", |round| round.home(load.pid()) == Some(0));
    assert_eq!(balance.wait_until_home(&load), 0);
    assert_eq!(affinities(load.pid()), ["0".to_owned()].into());
    let group = Cpuset::new("balance-node-1", "1")?;
    set_affinity(load.pid(), &[0, 1]);
    group.add_process(load.pid());
    balance.wait_for_round("its home follows", |round| round.home(load.pid()) == Some(1));
    assert_eq!(balance.wait_until_home(&load), 1);
    balance.stop().assert_success();
    assert_eq!(affinities(load.pid()), ["0-1".to_owned()].into());
    load.end();
    Ok(())
}

/// Goal: a process that gets the pid of one that ended is a different one: decisions about the
/// first do not affect it. (It has a policy of its own, so that none of its memory may move.)
fn pid_comes_back() -> CaseOutcome {
    disable_numa_balancing()?;
    let place = StateDir::new("pid");
    let mut balance = place.start(&format!("--name nodeward-load {SLOWLY}"));
    let load = start_load_away("--size 32MiB");
    let pid = load.pid();
    balance.wait_for_arrivals(&load);
    let is_home = |round: &RoundLine| round.home(pid) == Some(1);
    let first = balance.wait_for_round("it has a home", is_home).process(pid).map(|row| row.entity);
    balance.signal(Signal::STOP); // so that it does not notice the gap
    load.signal(Signal::KILL);
    drop(load);
    let again = start_with_pid(pid)?;
    balance.signal(Signal::CONT);
    let stands = |round: &RoundLine| round.has_reason(pid, "explicit-policy");
    let second =
        balance.wait_for_round("the new one stands", stands).process(pid).map(|row| row.entity);
    assert_ne!(first, second);
    assert_stayed(&again, 0);
    balance.stop().assert_success();
    again.end();
    Ok(())
}

/// Starts a load with this pid, whose memory is bound to node 0.
fn start_with_pid(pid: u32) -> Result<LoadProcess, CaseSkipped> {
    for _ in 0..20 {
        write(LAST_PID, &(pid - 1).to_string());
        let load = LoadProcess::start("--node 0 --size 32MiB");
        if load.pid() == pid {
            return Ok(load);
        }
    }
    Err(CaseSkipped(format!("number {pid} could not be had again")))
}
