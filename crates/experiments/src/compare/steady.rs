//! Constant loads on machines drawn from seeds: once all memory is at home, no page may move.

use std::sync::Arc;

use crate::swarm::SeededRng;
use crate::swarm::generator::{self, GeneratorProfile, REALISTIC, group_home, group_pools};
use anyhow::Result;
use nodeward_balancer::{AccessChoice, BalanceSettings};
use nodeward_model::{NodeId, Nodemask};
use nodeward_scenario::{MemoryPlacement, NodeSpec, Scenario, Workload, WorkloadKind};
use nodeward_sim::SimMachine;

use crate::compare::balancer::BalancedRun;
use crate::compare::{BalancerKind, NodewardSetup};

/// Time by which memory is at home unless it still moves, in virtual nanoseconds. Moves that pay
/// within the longest horizon, a minute, have begun well before.
pub const CONVERGED_NS: u64 = 80_000_000_000;
/// Memory still moves if it did within this time before, in virtual nanoseconds.
const CALM_NS: u64 = 10_000_000_000;
/// Duration of the check for moves that follows, in virtual nanoseconds.
pub const OBSERVED_NS: u64 = 60_000_000_000;

/// Minimum number of bytes that a program goes through between two waits or changes.
const STRIDE_BYTES: u64 = 16 << 20;
/// Maximum of the same: a load that lasts for half a minute and then changes is not constant.
const STRIDE_BYTES_MAX: u64 = 64 << 20;
/// Minimum size of a hot part: a smaller one stays in a cache.
const HOT_BYTES: u64 = 1 << 20;

/// Swarm machines without faults, with nodes and loads that are worth a balancer.
const STEADY: GeneratorProfile = GeneratorProfile {
    with_segments: false,
    node_pages: &[1 << 14, 1 << 16, 1 << 17, 1 << 18],
    cores: &[0, 1, 1, 2, 2, 2, 3, 3, 3],
    processes: &[1, 2, 3, 6, 12],
    threads: &[1, 1, 1, 2, 4, 8],
    thread_pages: &[1 << 12, 1 << 13, 1 << 14, 1 << 15],
    period_ns: (10_000_000, 1_000_000_000),
    phase_bytes: STRIDE_BYTES,
    fault_milli: &[0],
    ..REALISTIC
};
/// One load in this many has a memory policy of its own, and one is bound to some nodes.
const POLICY_ONE_IN: u64 = 8;
/// One machine in `GROUPS_ONE_IN` has groups, which are drawn with the key `GROUPS`.
const GROUPS_ONE_IN: u64 = 6;
const GROUPS: u64 = 31;

/// The result of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SteadyOutcome {
    /// Memory came home, and afterwards `after` base pages moved.
    Converged {
        /// Base pages moved until then.
        moved_before: u64,
        /// Base pages moved afterwards, in [`OBSERVED_NS`].
        moved_after: u64,
    },
    /// Memory was still moving, no page of it twice: copies find no bandwidth there.
    StillMoving,
    /// More pages moved than there are, and moves continue.
    Thrashing,
}

/// Returns the machine of a seed and its load, whose memory is placed at random at first.
pub fn generate_scenario(seed: u64) -> Scenario {
    let mut chance = SeededRng::new(seed);
    loop {
        let mut scenario = generator::generate_scenario(&mut chance, &STEADY);
        make_steady(&mut chance, &mut scenario);
        if !scenario.workloads.is_empty() && scenario.check().is_ok() {
            return scenario;
        }
    }
}

/// Puts threads and memory of a load into groups. They are drawn apart from all else, which stays
/// as it would be without.
fn group_threads(chance: &mut SeededRng, scenario: &mut Scenario) {
    let even = scenario.workloads.iter_mut().filter(|load| load.threads.is_multiple_of(2));
    let Some(load) = even.last() else { return };
    load.pools = 2;
    let nodes: Vec<NodeId> = scenario.machine.nodes.iter().map(|node| node.id).collect();
    let groups = group_pools(chance, load, |chance| group_home(chance, &nodes));
    scenario.groups.extend(groups);
}

fn make_steady(chance: &mut SeededRng, scenario: &mut Scenario) {
    let machine = &scenario.machine;
    let ids = |has: fn(&NodeSpec) -> bool| {
        let nodes = machine.nodes.iter().filter(move |node| has(node));
        nodes.map(|node| node.id).collect::<Vec<NodeId>>()
    };
    let with_memory = ids(|node| node.memory_bytes > 0);
    let is_choice = ids(|node| node.memory_bytes > 0 && !node.cpus.is_empty()).len() > 1;
    scenario.name = "steady".to_owned();
    scenario.actions.clear();
    scenario.faults = None;
    scenario.scheduler = nodeward_scenario::SchedulerKind::NumaUnaware;
    scenario.time_ns = CONVERGED_NS + OBSERVED_NS;
    scenario.sample_ns = 1_000_000_000;
    scenario.workloads.retain(|load| is_choice && is_steady(load));
    for load in &mut scenario.workloads {
        load.populated = true;
        load.start_ns = 0;
        let nodes: Nodemask = chance.subset(&with_memory).into_iter().collect();
        if !chance.one_in(POLICY_ONE_IN) {
            load.nodes = None;
        }
        if !load.placement.is_memory_policy() || !chance.one_in(POLICY_ONE_IN) {
            let is_left = !nodes.is_empty() && chance.one_in(2);
            load.placement = if is_left {
                MemoryPlacement::PopulatedOn(nodes)
            } else {
                MemoryPlacement::PopulatedFarthest
            };
        }
    }
    let mut chance = chance.clone().apart(GROUPS);
    if chance.one_in(GROUPS_ONE_IN) {
        group_threads(&mut chance, scenario);
    }
}

/// Returns whether a program does the same all the time, to the same memory, in strides that are
/// worth the time to simulate them.
fn is_steady(load: &Workload) -> bool {
    let is_kind = match load.kind {
        WorkloadKind::Triad { .. } => true,
        WorkloadKind::Random { hot_bytes_milli: hot, .. } => {
            hot == 0 || load.memory_bytes / 1000 * u64::from(hot) >= HOT_BYTES
        }
        WorkloadKind::Phases { phase_bytes, .. } => {
            (STRIDE_BYTES..=STRIDE_BYTES_MAX).contains(&phase_bytes)
        }
        WorkloadKind::MovingSet { window_bytes, .. } => window_bytes >= STRIDE_BYTES,
        _ => false,
    };
    is_kind && load.duty_cycle.is_none()
}

/// Runs the machine of a seed under a balancer that observes no accesses: samples of rarely used
/// memory take longer than these times until they are evidence.
///
/// # Errors
/// If the machine as a whole cannot be balanced.
pub fn run_steady(seed: u64, by: BalancerKind) -> Result<SteadyOutcome> {
    let (scenario, machine, all) = machine_of(seed);
    let settings = BalanceSettings { access: AccessChoice::Off, ..BalanceSettings::default() };
    let setup = NodewardSetup { settings, ..NodewardSetup::default() };
    let mut drive = by.start(&machine, &scenario, &setup)?;
    let pages_at = |drive: &mut BalancedRun, until_ns| -> Result<u64> {
        drive.run_until(until_ns)?;
        Ok(machine.with_world(|world| world.counters.migrated_pages))
    };
    let calm_from = pages_at(&mut drive, CONVERGED_NS - CALM_NS)?;
    let before = pages_at(&mut drive, CONVERGED_NS)?;
    if before == calm_from && !drive.is_moving() {
        let after = pages_at(&mut drive, CONVERGED_NS + OBSERVED_NS)? - before;
        return Ok(SteadyOutcome::Converged { moved_before: before, moved_after: after });
    }
    Ok(if before <= all { SteadyOutcome::StillMoving } else { SteadyOutcome::Thrashing })
}

/// Runs the machine of a seed under nodeward, which observes accesses. Returns the pages that move
/// until its end, and those of all programs.
///
/// # Errors
/// If the machine as a whole cannot be balanced.
pub fn run_observed(seed: u64) -> Result<[u64; 2]> {
    let (scenario, machine, all) = machine_of(seed);
    let setup = NodewardSetup::default();
    let mut drive = BalancerKind::Nodeward.start(&machine, &scenario, &setup)?;
    drive.run_until(CONVERGED_NS + OBSERVED_NS)?;
    Ok([machine.with_world(|world| world.counters.migrated_pages), all])
}

/// Returns the machine of a seed, at its beginning, and the pages of all its programs.
fn machine_of(seed: u64) -> (Scenario, Arc<SimMachine>, u64) {
    let scenario = generate_scenario(seed);
    let machine = Arc::new(SimMachine::new(&scenario, seed));
    let all = machine.processes().iter().flat_map(|process| process.pages.values()).sum();
    (scenario, machine, all)
}
