//! Drivers that measure a part of a run, or its duration.

use anyhow::Result;
use nodeward_scenario::Scenario;
use nodeward_sim::{Counters, Latencies, World};

use crate::reproduce::run_outcome::RunOutcome;
use crate::reproduce::scenario_runs::SEED;

const SECOND_NS: u64 = 1_000_000_000;
/// Interval of checks of a build's memory use, and whether it is over.
const POLL_NS: u64 = SECOND_NS / 100;

/// Measures from half a second on: short lists are in a steady state.
pub fn after_start(scenario: &Scenario) -> Result<RunOutcome> {
    Ok(measure_from(scenario, SECOND_NS / 2))
}

/// Measures from the third second on: lists that follow the depth were set twice.
pub fn after_two_periods(scenario: &Scenario) -> Result<RunOutcome> {
    Ok(measure_from(scenario, 2 * SECOND_NS))
}

/// Measures from the fifth second on: the gap of such lists is down to a sixteenth.
pub fn after_four_periods(scenario: &Scenario) -> Result<RunOutcome> {
    Ok(measure_from(scenario, 4 * SECOND_NS))
}

/// Measures the part of a run from a time on.
fn measure_from(scenario: &Scenario, from_ns: u64) -> RunOutcome {
    let mut world = World::new(scenario, SEED);
    world.run_until(from_ns);
    reset_counters(&mut world);
    let busy_ns = world.busy_ns();
    world.run_until(scenario.time_ns);
    let ns = world.now_ns() - from_ns;
    let busy_cpus = (world.busy_ns() - busy_ns) as f64 / ns as f64;
    let listed: u64 = nodes(&world).map(|node| world.pages_in_lists_on(node)).sum();
    let page_bytes = world.machine.params.page_bytes;
    RunOutcome::of(world.report())
        .with("seconds", ns as f64 / SECOND_NS as f64)
        .with("busy CPUs", busy_cpus)
        .with("idle", 100.0 * (1.0 - busy_cpus / world.machine.cpus().len() as f64))
        .with("listed GB", (listed * page_bytes) as f64 / 1e9)
}

/// Runs a build to the end of all its processes. Counters cover its fourth to sixth second, when
/// all places are taken.
pub fn run_build(scenario: &Scenario) -> Result<RunOutcome> {
    let mut world = World::new(scenario, SEED);
    let (mut used, mut outcome) = (Vec::new(), None);
    while !world.all_processes_ended() && world.now_ns() < scenario.time_ns {
        world.run_until(world.now_ns() + POLL_NS);
        used.push(used_gb(&world));
        if world.now_ns() == 3 * SECOND_NS {
            reset_counters(&mut world);
        }
        if world.now_ns() == 6 * SECOND_NS {
            outcome = Some(RunOutcome::of(world.report()));
        }
    }
    let outcome = outcome.unwrap_or_else(|| RunOutcome::of(world.report()));
    let (first, second) = used.split_at(used.len() / 2);
    let mean = |used: &[f64]| used.iter().sum::<f64>() / used.len().max(1) as f64;
    Ok(outcome
        .with("build s", world.now_ns() as f64 / SECOND_NS as f64)
        .with("used GB, first half", mean(first))
        .with("used GB, last quarter", mean(&second[second.len() / 2..])))
}

fn reset_counters(world: &mut World) {
    world.counters = Counters::default();
    world.latencies = Latencies::default();
}

fn nodes(world: &World) -> std::ops::Range<usize> {
    0..world.machine.nodes.len()
}

/// Returns the memory that is not free, as in /proc/meminfo: pages in lists are not free.
fn used_gb(world: &World) -> f64 {
    let page_bytes = world.machine.params.page_bytes;
    let free = |node| (world.free_on(node) - world.pages_in_lists_on(node)) * page_bytes;
    let free: u64 = nodes(world).map(free).sum();
    (world.machine.memory_bytes() - free) as f64 / 1e9
}

/// Converts a counter of nanoseconds to per cent of all busy CPU time.
pub fn percent_of_cpu_time(outcome: &RunOutcome, ns: f64) -> f64 {
    let all: u64 = outcome.report.time_ns.values().sum();
    100.0 * ns / all.max(1) as f64
}

/// Returns the share of CPU time spent waiting for zone locks, in per cent.
pub fn zone_wait_percent(outcome: &RunOutcome) -> f64 {
    percent_of_cpu_time(outcome, outcome.counter("zone_waited_ns"))
}

/// Returns the mean wait for a zone lock, in microseconds.
pub fn wait_us(outcome: &RunOutcome) -> f64 {
    outcome.counter("zone_waited_ns") / outcome.counter("zone_visits").max(1.0) / 1e3
}

/// Returns the work of a workload per second of the measured part.
pub fn rate(outcome: &RunOutcome, workload: &str) -> f64 {
    let mut all = outcome.report.workloads.iter();
    let done = all.find(|other| other.name == workload).map_or(0, |found| found.done);
    done as f64 / outcome.number("seconds")
}
