//! A running sweep, and the rows of its points.

use std::time::Duration;

use anyhow::Result;
use nodeward_experiments::parallel::{self, ParallelProgress};
use nodeward_sim::World;

use crate::machines::simulation;
use crate::progress::{ProgressSource, StoppableWork};
use crate::results::simulation::EndReason;
use crate::results::sweep::{SweepPlan, SweepRow};
use crate::stop_signals::Grace;

/// Progress of a sweep.
pub struct SweepProgress {
    resumed_points: usize,
    total: usize,
    watch: ParallelProgress,
}

impl SweepProgress {
    /// Creates the progress of a sweep of `total` points, of which `held` exist already.
    pub fn new(held: usize, total: usize) -> Self {
        Self { resumed_points: held, total, watch: ParallelProgress::default() }
    }
}

impl ProgressSource for SweepProgress {
    fn done_of_total(&self) -> (u64, u64) {
        let done = self.resumed_points + self.watch.completed();
        (done as u64, self.total as u64)
    }

    fn message(&self, elapsed: Duration) -> String {
        let (done, total) = self.done_of_total();
        let rate = self.watch.completed() as f64 / elapsed.as_secs_f64().max(1e-3);
        format!("{done} of {total} points, {rate:.1}/s")
    }
}

impl StoppableWork for SweepProgress {
    const GRACE: Grace = Grace::Account;

    fn stop(&self) {
        self.watch.stop();
    }
}

/// Simulates points on several threads. Rows arrive in the order of `numbers`, whichever ends
/// first. If a row fails or cannot be taken, or after a stop, the rest is left out.
pub fn run_in_order(
    plan: &SweepPlan,
    numbers: &[usize],
    jobs: usize,
    live: &SweepProgress,
    mut take: impl FnMut(SweepRow) -> Result<()>,
) -> Result<()> {
    let row = |&number: &usize| row(plan, number, &live.watch);
    parallel::for_each_in_order(numbers, jobs, &live.watch, row, |row| take(row?))
}

/// Returns the row of a point; `None` after a stop.
fn row(plan: &SweepPlan, number: usize, watch: &ParallelProgress) -> Option<Result<SweepRow>> {
    let point = plan.grid.point(number);
    let scenario = match plan.scenario(&point) {
        Ok(scenario) => scenario,
        Err(error) => return Some(Err(error)),
    };
    let mut world = World::new(&scenario, point.seed);
    let ended = simulation::run_until(&mut world, scenario.time_ns, |_| {
        watch.is_stopped().then_some(EndReason::Interrupted)
    });
    (ended == EndReason::VirtualTime).then(|| Ok(plan.row(number, &world.report())))
}
