//! The same workload in the simulator: its machine, its programs, and the balancers that both
//! worlds have.

use anyhow::{Context, Result};
use nodeward_experiments::compare::{BalancerKind, NodewardSetup, RunOptions, SEED, run_machine};
use nodeward_runner::{CounterSample, RunEnd, RunOverhead};
use nodeward_scenario::{MemoryPlacement, Scenario, Workload, WorkloadKind};
use nodeward_sim::{SimMachine, Timeline};

use crate::miss_timeline::{MissSample, MissTimeline};
use crate::run::RunResult;
use crate::workloads::LabWorkload;

const NS_PER_MS: u64 = 1_000_000;
/// The lab's nodeward may hold pages for so long, and use this part of a CPU for looks: see
/// `balancers`.
const STALL_NS: u64 = 20_000_000;
const LOOKS_PPM: u32 = 60_000;

/// Returns the simulator's balancer of a name in the lab; `None` if it has none like that.
pub fn kind_of(balancer: &str) -> Option<BalancerKind> {
    match balancer {
        "nothing" => Some(BalancerKind::Nothing),
        "kernel" => Some(BalancerKind::Kernel),
        "hand" => Some(BalancerKind::Hand),
        "nodeward" => Some(BalancerKind::Nodeward),
        "cooperate" => Some(BalancerKind::Cooperating),
        _ => None,
    }
}

/// Runs a workload under a balancer in the simulator. The result has what the lab's has; CPU time
/// is not among it.
///
/// # Errors
/// If the balancer cannot balance the machine, or the work is not done within the scenario's limit.
pub fn predict(workload: &LabWorkload, balancer: &str, by: BalancerKind) -> Result<RunResult> {
    let mut setup = NodewardSetup::default();
    setup.settings.stall_ns = Some(STALL_NS);
    setup.settings.steady_ppm = LOOKS_PPM;
    let options = RunOptions { seed: SEED, limit_ns: None, setup: &setup };
    let machine = match by {
        BalancerKind::Hand => {
            run_machine(&placed(&workload.scenario), BalancerKind::Nothing, &options)?
        }
        _ => run_machine(&workload.scenario, by, &options)?,
    };
    result(&machine, workload, balancer)
        .with_context(|| format!("{} is not done under {balancer} in the simulator", workload.name))
}

/// Returns a scenario whose programs are placed by hand as in the lab, before memory is touched:
/// threads stay on the nodes where they begin, and their parts of memory are there.
fn placed(scenario: &Scenario) -> Scenario {
    let mut placed = scenario.clone();
    let of_streams = |it: &&mut Workload| matches!(it.kind, WorkloadKind::Triad { .. });
    for workload in placed.workloads.iter_mut().filter(of_streams) {
        (workload.bound, workload.placement) = (true, MemoryPlacement::FirstTouch);
    }
    placed
}

fn result(machine: &SimMachine, workload: &LabWorkload, balancer: &str) -> Option<RunResult> {
    let ends = machine.work_ends();
    let timeline = machine.timeline();
    let migrated = timeline.points().last()?.migrated_pages;
    let overhead = RunOverhead { migrated, ..RunOverhead::default() };
    let look =
        CounterSample { at_ms: ends.last_ns? / NS_PER_MS, overhead, ..CounterSample::default() };
    Some(RunResult {
        workload: workload.name.clone(),
        balancer: balancer.to_owned(),
        repeat: 0,
        first_end_ms: ends.first_ns? / NS_PER_MS,
        track: misses(&timeline),
        looks: Vec::new(),
        end: RunEnd { look, migrated, ..RunEnd::default() },
    })
}

/// Returns the lines from memory: what the lab's counter calls misses.
fn misses(timeline: &Timeline) -> MissTimeline {
    let sample = |point: &nodeward_sim::Point| MissSample {
        at_ms: point.at_ns / NS_PER_MS,
        local: point.local_lines,
        remote: point.remote_lines,
    };
    MissTimeline(timeline.points().iter().map(sample).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a small workload is predicted in the figures of the lab: all work is done, memory that
    /// begins far from its threads is far from them under nothing, and by hand it is near.
    #[test]
    fn a_workload_is_predicted() {
        let crossed = LabWorkload::find("crossed").unwrap().scaled(64 << 20, 4);
        let of = |name: &str| predict(&crossed, name, kind_of(name).unwrap()).unwrap();
        let (nothing, hand) = (of("nothing"), of("hand"));
        assert!(nothing.track.local_share(0, u64::MAX).unwrap() < 0.05);
        assert!(hand.track.local_share(0, u64::MAX).unwrap() > 0.99);
        assert!(hand.end.look.at_ms < nothing.end.look.at_ms);
        assert!(nothing.first_end_ms <= nothing.end.look.at_ms);
        assert_eq!(nothing.end.migrated, 0);
    }
}
