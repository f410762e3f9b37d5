//! One load under one balancer.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Result;
use nodeward_scenario::Scenario;
use nodeward_sim::{Course, Report, SimMachine, Spent};

use crate::{Balancer, Case};

/// Every choice that is left open comes from it.
const SEED: u64 = 1;
/// What is told of the end is of so long, in virtual nanoseconds.
const END_NS: u64 = 10_000_000_000;
/// A share of local lines is of so long, in virtual nanoseconds.
const STRETCH_NS: u64 = 1_000_000_000;
/// Of 1000 lines so many are local where a load counts as brought home.
const HOME_MILLI: u64 = 900;

/// What came of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Its virtual time, in nanoseconds.
    pub time_ns: u64,
    /// Of 1000 lines in the last ten seconds, those of the own node.
    pub local_milli: u64,
    /// From when on nine of ten lines of each second were local, in virtual nanoseconds; none if
    /// they were not at the end.
    pub home_ns: Option<u64>,
    /// Base pages that went to another node.
    pub pages: u64,
    /// The same in a minute, as it went in the last ten seconds.
    pub pages_per_minute_at_end: u64,
    /// What was done in a second, by what it counts: lines of memory, lives of programs.
    pub work_per_s: BTreeMap<&'static str, u64>,
    /// CPU time in the kernel, with all that faults, scans, looks and moves take, in nanoseconds.
    pub kernel_ns: u64,
    /// Per cent of lines that were local, by the end of a second since the beginning.
    pub curve: Vec<(f64, f64)>,
}

/// A case under a balancer, from its beginning to its end.
///
/// # Errors
/// If the scenario does not fit, or the machine as a whole cannot be balanced.
pub fn run(case: &Case, by: Balancer, limit_ns: Option<u64>) -> Result<Outcome> {
    let mut scenario = Scenario::find_with(case.scenario, &case.sets(by))?;
    scenario.time_ns = limit_ns.unwrap_or(scenario.time_ns);
    let machine = Arc::new(SimMachine::new(&scenario, SEED));
    by.begin(&machine, &scenario)?.until(scenario.time_ns)?;
    let kernel_ns = machine.with_world(|world| {
        let kernel = Spent::ALL.into_iter().filter(|spent| *spent != Spent::User);
        kernel.map(|spent| world.counters.spent_ns[spent as usize]).sum()
    });
    Ok(Outcome { kernel_ns, ..Outcome::of(&machine.course(), &machine.report()) })
}

impl Outcome {
    fn of(course: &Course, report: &Report) -> Self {
        let end_ns = report.virtual_ns;
        let last_ns = end_ns.saturating_sub(END_NS);
        let mut work_per_s = BTreeMap::new();
        for workload in &report.workloads {
            *work_per_s.entry(workload.unit).or_default() += workload.done_per_s;
        }
        Self {
            time_ns: end_ns,
            local_milli: course.local_milli(last_ns, end_ns).unwrap_or(1000),
            home_ns: course.local_from_ns(HOME_MILLI, STRETCH_NS),
            pages: course.points().last().map_or(0, |last| last.migrated_pages),
            pages_per_minute_at_end: course.pages_per_minute(last_ns, end_ns),
            work_per_s,
            kernel_ns: 0,
            curve: curve(course, end_ns),
        }
    }

    /// Of 1000 parts of what another run did, how many this one did; of what there was least of.
    pub fn work_milli(&self, other: &Self) -> u64 {
        let part = |(unit, &all): (&&'static str, &u64)| {
            let ours = self.work_per_s.get(unit).copied().unwrap_or(0);
            ours.saturating_mul(1000).checked_div(all)
        };
        other.work_per_s.iter().filter_map(part).min().unwrap_or(1000)
    }
}

fn curve(course: &Course, end_ns: u64) -> Vec<(f64, f64)> {
    let seconds = (1..=end_ns / STRETCH_NS).map(|second| second * STRETCH_NS);
    let point = |to_ns: u64| {
        let milli = course.local_milli(to_ns - STRETCH_NS, to_ns)?;
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
        let outcome = |lines, lives| Outcome {
            work_per_s: [("lines", lines), ("lives", lives)].into(),
            ..Outcome::default()
        };
        let nothing = outcome(1_000, 200);
        assert_eq!(outcome(1_500, 199).work_milli(&nothing), 995); // 199 / 200
        assert_eq!(outcome(990, 400).work_milli(&nothing), 990);
        assert_eq!(outcome(0, 400).work_milli(&nothing), 0);
        assert_eq!(nothing.work_milli(&outcome(0, 0)), 1000);
    }
}
