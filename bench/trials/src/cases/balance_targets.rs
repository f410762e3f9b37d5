//! Processes that end, change or move elsewhere while they are balanced.

use rustix::process::Signal;

use crate::balancer::{Place, Round, alone, assert_stayed, load_away, named, share_milli};
use crate::guest::{Cpuset, affinities, let_run_on, write};
use crate::load::Load;
use crate::{Body, Ran, Skipped};

pub const CASES: [(&str, Body); 4] = [
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
fn targets_end() -> Ran {
    alone()?;
    let place = Place::new("end");
    let mut balance = place.start(SLOWLY);
    for signal in [Signal::TERM, Signal::KILL] {
        let load = load_away("--size 16MiB");
        let pid = load.pid();
        balance.until_arrivals(&load);
        load.signal(signal);
        balance.until("it is forgotten", |round| round.of(pid).is_none());
    }
    let other = load_away("--size 16MiB");
    balance.until_arrivals(&other);
    other.signal(Signal::HUP); // it calls exec
    let load = load_away("--size 8MiB");
    assert_eq!(balance.until_home(&load), 1);
    let round = balance.round();
    assert!(round.of(other.pid()).is_some(), "{round:?}");
    balance.stop().well();
    load.done();
    Ok(())
}

/// Goal: a process that forks all the time comes home all the same; pages that its children shared
/// with it during the move may stay, and nothing is lost.
fn targets_fork() -> Ran {
    alone()?;
    let place = Place::new("fork");
    let load = load_away("--size 16MiB --race fork");
    let mut balance = place.start(&named(&[&load]));
    let round = balance.until("it is settled", |round| {
        let row = round.of(load.pid());
        round.settled && row.is_some_and(|row| row.memory_reason.is_some())
    });
    assert_eq!(round.home(load.pid()), Some(1));
    println!("{} thousandths at home; {:?}", share_milli(&load, 1), round.of(load.pid()));
    balance.stop().well();
    let done = load.done();
    assert!(done.races > 0, "{done:?}");
    Ok(())
}

/// Goal: a process that changes its own affinity, or is put into another cpuset, gets a home where
/// it may run; its own settings stand.
fn targets_go_elsewhere() -> Ran {
    alone()?;
    let place = Place::new("elsewhere");
    let load = load_away("--size 8MiB");
    let mut balance = place.start(&format!("{}{SLOWLY}", named(&[&load])));
    balance.until_arrivals(&load);
    let_run_on(load.pid(), &[0]);
    balance.until("its home follows", |round| round.home(load.pid()) == Some(0));
    assert_eq!(balance.until_home(&load), 0);
    assert_eq!(affinities(load.pid()), ["0".to_owned()].into());
    let group = Cpuset::new("balance-node-1", "1")?;
    let_run_on(load.pid(), &[0, 1]);
    group.take(load.pid());
    balance.until("its home follows", |round| round.home(load.pid()) == Some(1));
    assert_eq!(balance.until_home(&load), 1);
    balance.stop().well();
    assert_eq!(affinities(load.pid()), ["0-1".to_owned()].into());
    load.done();
    Ok(())
}

/// Goal: a process that gets the pid of one that ended is a different one: decisions about the
/// first do not affect it. (It has a policy of its own, so that none of its memory may move.)
fn pid_comes_back() -> Ran {
    alone()?;
    let place = Place::new("pid");
    let mut balance = place.start(&format!("--name nodeward-load {SLOWLY}"));
    let load = load_away("--size 32MiB");
    let pid = load.pid();
    balance.until_arrivals(&load);
    let is_home = |round: &Round| round.home(pid) == Some(1);
    let first = balance.until("it has a home", is_home).of(pid).map(|row| row.entity);
    balance.signal(Signal::STOP); // so that it does not notice the gap
    load.signal(Signal::KILL);
    drop(load);
    let again = start_as_number(pid)?;
    balance.signal(Signal::CONT);
    let stands = |round: &Round| round.is_because(pid, "explicit-policy");
    let second = balance.until("the new one stands", stands).of(pid).map(|row| row.entity);
    assert_ne!(first, second);
    assert_stayed(&again, 0);
    balance.stop().well();
    again.done();
    Ok(())
}

/// Starts a load with this pid, whose memory is bound to node 0.
fn start_as_number(pid: u32) -> Result<Load, Skipped> {
    for _ in 0..20 {
        write(LAST_PID, &(pid - 1).to_string());
        let load = Load::start("--node 0 --size 32MiB");
        if load.pid() == pid {
            return Ok(load);
        }
    }
    Err(Skipped(format!("number {pid} could not be had again")))
}
