//! A balancer while processes come and go all the time.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use nodeward_model::units::parse_duration_ns;
use rustix::process::Signal;

use crate::balancer::{RoundLine, StateDir, disable_numa_balancing, start_load_away};
use crate::case_outcome::{CaseFn, CaseOutcome};
use crate::guest::kib;
use crate::load::LoadProcess;

pub const CASES: [(&str, CaseFn); 1] = [("balance_churn", churn)];

/// Number of live processes; the oldest ends when another starts.
const ALIVE: usize = 5;
/// Maximum growth of a balancer's memory from a twelfth of the time to the end, in kB.
const GROWN_KIB: u64 = 2048;

/// Goal: while processes start, grow, fork, call exec, end and are killed all the time, a balancer
/// reports no error, stays within its memory, and loses no word of theirs. SOAK_TIME sets the
/// duration.
fn churn() -> CaseOutcome {
    disable_numa_balancing()?;
    let text = std::env::var("SOAK_TIME").expect("SOAK_TIME is set");
    let time = Duration::from_nanos(parse_duration_ns(&text).expect("SOAK_TIME is a time"));
    let place = StateDir::new("churn");
    let mut balance = place.start("");
    let (mut loads, mut started, mut rounds) = (VecDeque::new(), 0, 0_u64);
    let (mut early_kib, mut seen) = (None, 0);
    let start = Instant::now();
    // However slow the guest is, some processes come and go.
    while start.elapsed() < time || started < 2 * ALIVE {
        if loads.len() == ALIVE {
            end(loads.pop_front().expect("the oldest"), started);
        }
        loads.push_back(begin(started));
        started += 1;
        let round: RoundLine = balance.next_round();
        rounds += 1;
        seen += round.processes.iter().filter(|row| row.home.is_some()).count();
        if start.elapsed() >= time / 12 && loads.len() == ALIVE {
            early_kib.get_or_insert_with(|| rss_kib(balance.pid()));
        }
    }
    let (early, late) = (early_kib.unwrap_or(0), rss_kib(balance.pid()));
    loads.into_iter().for_each(|load| end(load, 0));
    let ended = balance.stop().assert_success();
    println!(
        "{started} processes, {rounds} rounds, {} pages moved, {seen} times somebody had a home; \
         {early} kB of memory early, {late} kB at the end",
        ended.moved_pages
    );
    assert!(seen > 0 && early > 0, "nothing was balanced");
    assert!(late <= early + GROWN_KIB, "{early} kB grew to {late} kB");
    // The speed of the guest is not the balancer's fault.
    let mut said = ended.stderr.lines().filter(|line| !line.contains("looking costs more"));
    assert_eq!(said.next(), None, "nothing was to be said");
    Ok(())
}

fn rss_kib(pid: u32) -> u64 {
    kib(&format!("/proc/{pid}/status"), "VmRSS")
}

/// Starts processes of all kinds, in turn.
fn begin(number: usize) -> LoadProcess {
    match number % 5 {
        0 => start_load_away("--size 8MiB"),
        1 => LoadProcess::start("--node 0 --unbind --size 4MiB --race grow --race-size 256KiB"),
        2 => LoadProcess::start("--node 1 --unbind --size 4MiB --race fork"),
        3 => start_load_away("--size 4MiB --pause 1ms --race unmap,discard --race-size 64KiB"),
        _ => LoadProcess::start("--node 0 --unbind --size 8MiB --threads 2"),
    }
}

/// Ends a process: by itself, by a kill, or after exec.
fn end(load: LoadProcess, number: usize) {
    match number % 4 {
        1 => load.signal(Signal::KILL),
        2 => load.signal(Signal::HUP),
        _ => _ = load.end(),
    }
}
