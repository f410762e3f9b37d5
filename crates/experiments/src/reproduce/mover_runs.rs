//! Runs nodeward's mover on a simulated machine: it looks, plans, moves with parallel workers, and
//! verifies.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use nodeward_machine::Machine as _;
use nodeward_model::{NodeId, NodePairs, Nodemask};
use nodeward_mover::{Jobs, MoveControl, MoveOrder, MoveRequest, Selection, migrate};
use nodeward_policy::workers;
use nodeward_scenario::Scenario;
use nodeward_sim::SimMachine;

use crate::reproduce::run_outcome::RunOutcome;
use crate::reproduce::scenario_runs::SEED;

const FROM: NodeId = NodeId(0);
const TO: NodeId = NodeId(1);

/// Moves the first process from node 0 to node 1 once all memory is populated, with `jobs` workers
/// on CPUs that the policy chooses. The outcome has these numbers: `moving_ms`, `pages` (moved),
/// and `workers`.
///
/// # Errors
///
/// If there is no process, or the move fails.
pub fn move_first_process(scenario: &Scenario, jobs: Jobs) -> Result<RunOutcome> {
    let sim = SimMachine::new(scenario, SEED);
    sim.run_until_populated(scenario.time_ns);
    let pid = sim.processes().first().context("no process")?.pid;
    let orders: Arc<[MoveOrder]> =
        [MoveOrder { pairs: NodePairs::from_lists(&[FROM], &[TO]), pages: None }].into();
    let to: Nodemask = [TO].into_iter().collect();
    let request = MoveRequest {
        orders: vec![orders],
        selection: Selection::default(),
        jobs,
        cpus: workers::worker_cpus(&sim.topology()?, &to, &sim.usable_cpus()?),
        rate_bytes_per_s: None,
        stall_ns: None,
        split_huge: false,
    };
    let report = migrate(&sim, &[sim.open_process(pid)?], &request, &MoveControl::default(), None)?;
    Ok(RunOutcome::of(sim.report())
        .with("moving_ms", report.moving_ns as f64 / 1e6)
        .with("pages", report.account().moved as f64)
        .with("workers", f64::from(report.workers)))
}

/// Moves with as many workers as pay.
///
/// # Errors
///
/// As [`move_first_process`].
pub fn move_with_auto_workers(scenario: &Scenario) -> Result<RunOutcome> {
    move_first_process(scenario, Jobs::Auto)
}

/// Moves with one worker.
///
/// # Errors
///
/// As [`move_first_process`].
pub fn move_with_one_worker(scenario: &Scenario) -> Result<RunOutcome> {
    move_first_process(scenario, Jobs::Fixed(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: every page of the first process arrives, and several workers take less time than one.
    #[test]
    fn the_mover_moves_the_first_process() {
        let late = ["action.0.at", "action.1.at"].map(|key| (key.to_owned(), "2800ms".to_owned()));
        let memory = ("workload.base.memory".to_owned(), "64MiB".to_owned());
        let sets = [&late[..], &[memory]].concat();
        let scenario = Scenario::find_with("page-migration-2017", &sets).unwrap();
        let one = move_with_one_worker(&scenario).unwrap();
        let many = move_with_auto_workers(&scenario).unwrap();
        for outcome in [&one, &many] {
            assert_eq!(outcome.number("pages"), 16_384.0); // 64 MiB
            assert_eq!(outcome.counter("migrated_pages"), 16_384.0);
        }
        assert_eq!(one.number("workers"), 1.0);
        assert!(many.number("workers") > 1.0);
        // Without batches a page takes 2.39 us: 16384 * 2.39 = 39 ms, and a call.
        assert!((39.0..41.0).contains(&one.number("moving_ms")), "{}", one.number("moving_ms"));
        assert!(many.number("moving_ms") < one.number("moving_ms"));
    }
}
