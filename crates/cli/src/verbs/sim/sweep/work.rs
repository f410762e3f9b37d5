//! A running sweep, and the rows of its points.

use std::time::Duration;

use anyhow::Result;
use nodeward_sim::World;
use nodeward_swarm::crew::{self, Watch};

use super::plan::{Plan, Row};
use crate::progress::Shown;
use crate::verbs::sim::drive::{self, Ended};

/// Progress of a sweep.
pub struct Live {
    held: usize,
    total: usize,
    watch: Watch,
}

impl Live {
    /// Creates the progress of a sweep of `total` points, of which `held` exist already.
    pub fn new(held: usize, total: usize) -> Self {
        Self { held, total, watch: Watch::default() }
    }
}

impl Shown for Live {
    fn done_of_total(&self) -> (u64, u64) {
        let done = self.held + self.watch.done();
        (done as u64, self.total as u64)
    }

    fn words(&self, elapsed: Duration) -> String {
        let (done, total) = self.done_of_total();
        let rate = self.watch.done() as f64 / elapsed.as_secs_f64().max(1e-3);
        format!("{done} of {total} points, {rate:.1}/s")
    }

    fn stop(&self) {
        self.watch.stop();
    }
}

/// Simulates points on several threads. Rows arrive in the order of `numbers`, whichever ends
/// first. If a row fails or cannot be taken, or after a stop, the rest is left out.
pub fn each_in_order(
    plan: &Plan,
    numbers: &[usize],
    jobs: usize,
    live: &Live,
    mut take: impl FnMut(Row) -> Result<()>,
) -> Result<()> {
    let row = |&number: &usize| row(plan, number, &live.watch);
    crew::each_in_order(numbers, jobs, &live.watch, row, |row| take(row?))
}

/// Returns the row of a point; `None` after a stop.
fn row(plan: &Plan, number: usize, watch: &Watch) -> Option<Result<Row>> {
    let point = plan.grid.point(number);
    let scenario = match plan.scenario(&point) {
        Ok(scenario) => scenario,
        Err(error) => return Some(Err(error)),
    };
    let mut world = World::new(&scenario, point.seed);
    let ended = drive::until(&mut world, scenario.time_ns, |_| {
        watch.is_stopped().then_some(Ended::Stopped)
    });
    (ended == Ended::Time).then(|| Ok(plan.row(number, &world.report())))
}
