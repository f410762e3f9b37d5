//! Many programs on few nodes: the local share of their memory accesses, under the kernel of 2012
//! and with nodeward's balancer, which runs once a second, and more often while threads stray.

use std::sync::Arc;

use anyhow::Result;
use nodeward_balancer::{BalanceSettings, Balancer};
use nodeward_machine::Machine;
use nodeward_model::ProcessFilter;
use nodeward_mover::MoveControl;
use nodeward_policy::placement::Rules;
use nodeward_scenario::Scenario;
use nodeward_sim::SimMachine;

use crate::reproduce::run_outcome::RunOutcome;
use crate::reproduce::scenario_runs::SEED;

/// Start of the measurement; programs have long been running by then.
const MEASURE_FROM_NS: u64 = 20_000_000_000;
/// Start of the balancer.
const BALANCE_FROM_NS: u64 = MEASURE_FROM_NS / 2;

/// The kernel alone.
pub fn kernel_alone(scenario: &Scenario) -> Result<RunOutcome> {
    run(scenario, None)
}

/// The balancer moves threads to their homes, on a kernel without homes.
pub fn nudge_threads(scenario: &Scenario) -> Result<RunOutcome> {
    let rules = Rules { move_memory: false, ..Rules::default() };
    run(scenario, Some(BalanceSettings { rules, ..BalanceSettings::default() }))
}

/// The balancer also moves memory.
pub fn nudge_threads_and_move_memory(scenario: &Scenario) -> Result<RunOutcome> {
    run(scenario, Some(BalanceSettings::default()))
}

fn run(scenario: &Scenario, settings: Option<BalanceSettings>) -> Result<RunOutcome> {
    let machine = Arc::new(SimMachine::new(scenario, SEED));
    machine.run_until(BALANCE_FROM_NS);
    let new = |settings| {
        let machine: Arc<dyn Machine> = Arc::<SimMachine>::clone(&machine);
        Balancer::new(machine, &ProcessFilter::default(), settings, None)
    };
    let mut balancer = settings.map(new).transpose()?;
    let mut moved = balance(&machine, balancer.as_mut(), MEASURE_FROM_NS)?;
    let count = || {
        machine.with_world(|world| {
            let counters = &world.counters;
            [counters.local_lines, counters.remote_lines, counters.task_node_moves]
        })
    };
    let before = count();
    let began_ns = machine.now_ns();
    moved += balance(&machine, balancer.as_mut(), scenario.time_ns)?;
    let after = count();
    let seconds = (machine.now_ns() - began_ns) as f64 / 1e9;
    let per_s = |index: usize| (after[index] - before[index]) as f64 / seconds;
    let report = machine.with_world(|world| world.report());
    Ok(RunOutcome::of(report)
        .with("local", per_s(0))
        .with("remote", per_s(1))
        .with("node-moves", per_s(2))
        .with("moved", moved as f64))
}

/// Runs rounds until a time. Returns the number of pages moved.
fn balance(machine: &SimMachine, balancer: Option<&mut Balancer>, until_ns: u64) -> Result<u64> {
    let Some(balancer) = balancer else {
        machine.run_until(until_ns);
        return Ok(0);
    };
    let mut moved = 0;
    while machine.now_ns() < until_ns {
        let report = balancer.round(&MoveControl::default())?;
        moved += report.moved_pages;
        let next_ns = report.at_ns + report.interval_ns;
        machine.run_until(next_ns.max(machine.now_ns() + 1).min(until_ns));
    }
    Ok(moved)
}
