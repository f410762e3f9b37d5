//! Whatever scenario is accepted: it neither panics nor stands still, and the same seed does the
//! same.
//!
//! A failure names its case; `NODEWARD_CASE=NUMBER cargo test -p nodeward-sim --test any_scenario`
//! runs that one alone.

mod any;
mod common;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use any::Chance;
use nodeward_scenario::Scenario;
use nodeward_sim::{Counters, Perfetto, World};

/// Events between two checks.
const SLICE: u32 = 200;
/// How many scenarios are tried: for a few seconds in a build with checks.
const CASES: u64 = 150;
/// Virtual time passes within so many events for each CPU and thread.
const EVENTS_AT_ONCE: u64 = 64;

/// What must be the same in a second run.
type Outcome = (u64, u64, Counters);

/// Runs a scenario for so many events at most, and checks it on the way.
fn run(scenario: &Scenario, seed: u64, events_max: u64) -> Outcome {
    let mut world = World::new(scenario, seed);
    let trace = Arc::new(Mutex::new(Perfetto::new(Vec::new(), scenario, 100_000)));
    world.observe(Box::new(Arc::clone(&trace)));
    let cpus = scenario.machine.cpus().len() as u64;
    let tasks: u64 = scenario.workloads.iter().map(|workload| workload.tasks()).sum();
    let crowd = EVENTS_AT_ONCE * (cpus + tasks + 100);
    let (mut last_ns, mut since) = (0, 0);
    loop {
        let is_over = world.run_some(scenario.time_ns, SLICE);
        let (now, events) = (world.now_ns(), world.counters.events);
        assert_eq!(world.check_pages(), Ok(()), "at {now} ns");
        assert!(now >= last_ns, "time runs backwards: {last_ns} ns, {now} ns");
        if now > last_ns {
            (last_ns, since) = (now, events);
        }
        assert!(events - since <= crowd, "{} events at {now} ns", events - since);
        let (busy, there) = (world.busy_ns(), u128::from(cpus) * u128::from(now));
        assert!(u128::from(busy) <= there, "{busy} ns of CPU time of {there} ns");
        if is_over || events >= events_max {
            break;
        }
    }
    let report = world.report();
    assert!(serde_json::to_string(&report).is_ok());
    trace.lock().unwrap().end(world.now_ns()).unwrap();
    (world.trace_hash(), world.now_ns(), world.counters.clone())
}

/// Runs a case; what was counted, if it went well.
fn held(case: u64, show: bool) -> Option<Counters> {
    let mut chance = Chance::new(case);
    let scenario = any::scenario(&mut chance);
    if show {
        eprintln!("{scenario:#?}");
    }
    let events = if chance.one_in(8) { 20_000 } else { 4_000 };
    let ran = catch_unwind(AssertUnwindSafe(|| {
        let seed = chance.below(u64::MAX);
        let first = run(&scenario, seed, events);
        if case.is_multiple_of(4) {
            assert_eq!(run(&scenario, seed, events), first, "two runs of one seed differ");
        }
        first.2
    }));
    ran.ok()
}

/// What a run had of what is to happen in one or another.
fn what_happened(counters: &Counters) -> impl Iterator<Item = &'static str> {
    let counts = [
        ("lines of the own node", counters.local_lines),
        ("lines of other nodes", counters.remote_lines),
        ("migration", counters.migrated_pages),
        ("migration in a fault", counters.lazy_pages),
        ("a wait for a page in flight", counters.flight_waits),
        ("huge pages", counters.huge_faults),
        ("the last page", counters.list_drains),
        ("no page", counters.oom_kills),
    ];
    counts.into_iter().filter(|&(_, count)| count > 0).map(|(name, _)| name)
}

/// Goal: whatever scenario is accepted, time goes on, no page is lost, no CPU works for longer than
/// there is time, and a second run comes to the same.
#[test]
fn any_scenario_goes_on() {
    let only = std::env::var("NODEWARD_CASE").ok().map(|case| case.parse().unwrap());
    let cases = only.map_or(0..CASES, |case: u64| case..case + 1);
    let (mut failed, mut happened) = (Vec::new(), BTreeSet::new());
    for case in cases {
        match held(case, only.is_some()) {
            Some(counters) => happened.extend(what_happened(&counters)),
            None => failed.push(case),
        }
    }
    assert!(failed.is_empty(), "these cases fail, NODEWARD_CASE runs one: {failed:?}");
    // The scenarios are worth something: all of this happened in one or another.
    assert!(only.is_some() || happened.len() == 8, "{happened:?}");
}
