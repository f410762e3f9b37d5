//! Many simulations at a time, and their rows in the order of points.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use anyhow::Result;
use nodeward_sim::World;

use super::plan::{Plan, Row};
use crate::progress::Shown;
use crate::verbs::sim::drive::{self, Ended};

/// A sweep while it goes on.
pub struct Live {
    held: usize,
    total: usize,
    done: AtomicUsize,
    stopped: AtomicBool,
}

impl Live {
    /// Of so many points, of which so many are there already.
    pub fn new(held: usize, total: usize) -> Self {
        Self { held, total, done: AtomicUsize::new(0), stopped: AtomicBool::new(false) }
    }

    /// Whether it was told to stop.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }
}

impl Shown for Live {
    fn done_of_total(&self) -> (u64, u64) {
        let done = self.held + self.done.load(Ordering::Relaxed);
        (done as u64, self.total as u64)
    }

    fn words(&self, elapsed: Duration) -> String {
        let (done, total) = self.done_of_total();
        let simulated = self.done.load(Ordering::Relaxed) as f64;
        let rate = simulated / elapsed.as_secs_f64().max(1e-3);
        format!("{done} of {total} points, {rate:.1}/s")
    }

    fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }
}

/// What a thread found out: which of the points, in their order, and its row.
type Found = (usize, Result<Row>);

/// Simulates points on so many threads. Rows come in the order of `numbers`, whoever is first; when
/// a row cannot be taken or made, or somebody says stop, the rest is left out.
pub fn each_in_order(
    plan: &Plan,
    numbers: &[usize],
    jobs: usize,
    live: &Live,
    take: impl FnMut(Row) -> Result<()>,
) -> Result<()> {
    let next = AtomicUsize::new(0);
    let (found, rows) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..jobs.min(numbers.len()) {
            let (found, next) = (found.clone(), &next);
            scope.spawn(move || {
                loop {
                    let place = next.fetch_add(1, Ordering::Relaxed);
                    let number = numbers.get(place).filter(|_| !live.is_stopped());
                    let Some(row) = number.and_then(|&number| row(plan, number, live)) else {
                        return;
                    };
                    live.done.fetch_add(1, Ordering::Relaxed);
                    // Nobody takes it after an error.
                    let _ = found.send((place, row));
                }
            });
        }
        drop(found);
        let taken = in_order(&rows, take);
        if taken.is_err() {
            live.stop();
        }
        taken
    })
}

/// Hands rows on as soon as all before them are there.
fn in_order(rows: &Receiver<Found>, mut take: impl FnMut(Row) -> Result<()>) -> Result<()> {
    let mut early = BTreeMap::new();
    let mut next = 0;
    for (place, row) in rows {
        early.insert(place, row);
        while let Some(row) = early.remove(&next) {
            take(row?)?;
            next += 1;
        }
    }
    Ok(())
}

/// The row of a point; none if it was told to stop.
fn row(plan: &Plan, number: usize, live: &Live) -> Option<Result<Row>> {
    let point = plan.grid.point(number);
    let scenario = match plan.scenario(&point) {
        Ok(scenario) => scenario,
        Err(error) => return Some(Err(error)),
    };
    let mut world = World::new(&scenario, point.seed);
    let ended =
        drive::until(&mut world, scenario.time_ns, |_| live.is_stopped().then_some(Ended::Stopped));
    (ended == Ended::Time).then(|| Ok(plan.row(number, &world.report())))
}
