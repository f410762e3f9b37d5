//! Runs one load under one balancer.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Result;
use nodeward_scenario::Scenario;
use nodeward_sim::{CpuTimeKind, SimMachine, SimReport, Timeline};

use crate::compare::{BalancerKind, CompareCase, NodewardSetup};

/// The seed of all random choices, unless another is given.
pub const SEED: u64 = 1;
/// Length of the final window of a run, in virtual nanoseconds.
const END_WINDOW_NS: u64 = 10_000_000_000;
/// Interval over which a share of local lines is taken, in virtual nanoseconds.
const LOCALITY_WINDOW_NS: u64 = 1_000_000_000;
/// Local lines per 1000 from which a load counts as brought home.
const CONVERGED_LOCAL_MILLI: u64 = 900;

/// The result of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CompareOutcome {
    /// Its virtual time, in nanoseconds.
    pub time_ns: u64,
    /// Local lines per 1000 in the last ten seconds.
    pub local_milli: u64,
    /// The virtual time (ns) since which nine of ten lines were local in every second. `None` if
    /// they were not at the end.
    pub local_since_ns: Option<u64>,
    /// Base pages moved to another node.
    pub pages: u64,
    /// Base pages moved per minute, in the last ten seconds.
    pub pages_per_minute_at_end: u64,
    /// Work per second, by its unit: lines of memory, lives of programs.
    pub work_per_s: BTreeMap<&'static str, u64>,
    /// CPU time in the kernel, including faults, scans, samples and moves, in nanoseconds.
    pub kernel_ns: u64,
    /// Per cent of local lines in each second, by the end of that second.
    pub curve: Vec<(f64, f64)>,
}

/// How a case is run.
#[derive(Clone, Copy, Debug)]
pub struct RunOptions<'a> {
    /// The seed of all random choices.
    pub seed: u64,
    /// The virtual time after which it ends, in nanoseconds; that of its scenario if `None`.
    pub limit_ns: Option<u64>,
    /// How nodeward is set up, where it takes part.
    pub setup: &'a NodewardSetup,
}

/// Runs a case under a balancer, with the seed of all tables and nodeward's defaults.
///
/// # Errors
/// As [`run_with`].
pub fn run(case: &CompareCase, by: BalancerKind, limit_ns: Option<u64>) -> Result<CompareOutcome> {
    run_with(case, by, RunOptions { seed: SEED, limit_ns, setup: &NodewardSetup::default() })
}

/// Runs a case under a balancer.
///
/// # Errors
/// If the scenario does not fit, or the machine as a whole cannot be balanced.
pub fn run_with(
    case: &CompareCase,
    by: BalancerKind,
    options: RunOptions<'_>,
) -> Result<CompareOutcome> {
    let mut scenario = Scenario::find_with(case.scenario, case.overrides)?;
    scenario.time_ns = options.limit_ns.unwrap_or(scenario.time_ns);
    let machine = run_machine(&scenario, by, &options)?;
    let kernel_ns = machine.with_world(|world| {
        let kernel = CpuTimeKind::ALL.into_iter().filter(|spent| *spent != CpuTimeKind::User);
        kernel.map(|spent| world.counters.spent_ns[spent as usize]).sum()
    });
    Ok(CompareOutcome {
        kernel_ns,
        ..CompareOutcome::from_timeline(
            &machine.timeline(),
            &machine.report(),
            machine.work_ends().last_ns,
        )
    })
}

/// Runs a scenario under a balancer until its end. Returns the machine as it is then.
///
/// # Errors
/// If the machine as a whole cannot be balanced.
pub fn run_machine(
    scenario: &Scenario,
    by: BalancerKind,
    options: &RunOptions<'_>,
) -> Result<Arc<SimMachine>> {
    let mut scenario = scenario.clone();
    by.select_in(&mut scenario);
    let machine = Arc::new(SimMachine::new(&scenario, options.seed));
    by.start(&machine, &scenario, options.setup)?.run_until(scenario.time_ns)?;
    Ok(machine)
}

impl CompareOutcome {
    /// The outcome of a run that ended at `done_at_ns`, when all its work was done, or else when
    /// its time was over.
    fn from_timeline(timeline: &Timeline, report: &SimReport, done_at_ns: Option<u64>) -> Self {
        let end_ns = done_at_ns.unwrap_or(report.virtual_ns);
        let last_ns = end_ns.saturating_sub(END_WINDOW_NS);
        let mut work_per_s = BTreeMap::new();
        for workload in &report.workloads {
            let per_s = u128::from(workload.done) * 1_000_000_000 / u128::from(end_ns.max(1));
            *work_per_s.entry(workload.unit).or_default() += per_s as u64;
        }
        Self {
            time_ns: end_ns,
            local_milli: timeline.local_milli(last_ns, end_ns).unwrap_or(1000),
            local_since_ns: timeline.local_since_ns(CONVERGED_LOCAL_MILLI, LOCALITY_WINDOW_NS),
            pages: timeline.points().last().map_or(0, |last| last.migrated_pages),
            pages_per_minute_at_end: timeline.pages_per_minute(last_ns, end_ns),
            work_per_s,
            kernel_ns: 0,
            curve: curve(timeline, end_ns),
        }
    }

    /// Returns the work of this run per 1000 of another run's, for the unit with the least.
    pub fn work_milli(&self, other: &Self) -> u64 {
        let part = |(unit, &all): (&&'static str, &u64)| {
            let ours = self.work_per_s.get(unit).copied().unwrap_or(0);
            ours.saturating_mul(1000).checked_div(all)
        };
        other.work_per_s.iter().filter_map(part).min().unwrap_or(1000)
    }
}

fn curve(timeline: &Timeline, end_ns: u64) -> Vec<(f64, f64)> {
    let seconds = (1..=end_ns / LOCALITY_WINDOW_NS).map(|second| second * LOCALITY_WINDOW_NS);
    let point = |to_ns: u64| {
        let milli = timeline.local_milli(to_ns - LOCALITY_WINDOW_NS, to_ns)?;
        Some((to_ns as f64 / 1e9, milli as f64 / 10.0))
    };
    seconds.filter_map(point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: work is compared unit by unit, and the worst counts.
    #[test]
    fn work_is_that_of_the_unit_that_lost_most() {
        let outcome = |lines, lives| CompareOutcome {
            work_per_s: [("lines", lines), ("lives", lives)].into(),
            ..CompareOutcome::default()
        };
        let nothing = outcome(1_000, 200);
        assert_eq!(outcome(1_500, 199).work_milli(&nothing), 995); // 199 / 200
        assert_eq!(outcome(990, 400).work_milli(&nothing), 990);
        assert_eq!(outcome(0, 400).work_milli(&nothing), 0);
        assert_eq!(nothing.work_milli(&outcome(0, 0)), 1000);
    }
}
