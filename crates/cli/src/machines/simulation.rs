//! Runs a simulated machine until its end, or until something else ends it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use nodeward_experiments::compare::NodewardSetup;
use nodeward_model::units::format_ns;
use nodeward_scenario::Scenario;
use nodeward_sim::{Observer, World};

use super::balanced_simulation;
use crate::args::SimArgs;
use crate::progress::{ProgressSource, StoppableWork};
use crate::results::simulation::{EndReason, SimulationRun, speed};
use crate::stop_signals::Grace;

/// Events between two checks of the clock: some milliseconds.
const EVENTS: u32 = 4096;

/// Progress of a run.
pub struct SimulationProgress {
    until_ns: u64,
    now_ns: AtomicU64,
    events: AtomicU64,
    stopped: AtomicBool,
}

impl SimulationProgress {
    /// Creates the progress of a run until a virtual time.
    pub fn new(until_ns: u64) -> Self {
        let [now_ns, events] = [0; 2].map(AtomicU64::new);
        Self { until_ns, now_ns, events, stopped: AtomicBool::new(false) }
    }

    fn update(&self, world: &World) {
        self.now_ns.store(world.now_ns(), Ordering::Relaxed);
        self.events.store(world.counters.events, Ordering::Relaxed);
    }
}

impl ProgressSource for SimulationProgress {
    fn done_of_total(&self) -> (u64, u64) {
        (self.now_ns.load(Ordering::Relaxed), self.until_ns)
    }

    fn message(&self, elapsed: Duration) -> String {
        let (now_ns, events) =
            (self.now_ns.load(Ordering::Relaxed), self.events.load(Ordering::Relaxed));
        let wall_ns = nanoseconds(elapsed);
        let speed = speed(now_ns, wall_ns);
        let rate = events as f64 / elapsed.as_secs_f64().max(1e-3) / 1e6;
        format!("{} simulated, {speed:.2} x real time, {rate:.1} M events/s", format_ns(now_ns))
    }
}

impl StoppableWork for SimulationProgress {
    const GRACE: Grace = Grace::Account;

    fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }
}

/// Runs a scenario until something ends it, with nodeward at work if it is set up.
///
/// # Errors
/// If nodeward cannot balance the machine.
pub fn run(
    scenario: &Scenario,
    args: &SimArgs,
    setup: Option<&NodewardSetup>,
    observer: Option<Box<dyn Observer>>,
    live: &SimulationProgress,
) -> Result<SimulationRun> {
    let called = Instant::now();
    let mut world = World::new(scenario, args.seed);
    if let Some(observer) = observer {
        world.set_observer(observer);
    }
    let began = Instant::now();
    let wall = args.limit_wall.map(Duration::from_nanos);
    let end = |world: &World| {
        live.update(world);
        if live.stopped.load(Ordering::Relaxed) {
            return Some(EndReason::Interrupted);
        }
        if world.work_ends().last_ns.is_some() {
            return Some(EndReason::VirtualTime);
        }
        wall.is_some_and(|wall| called.elapsed() >= wall).then_some(EndReason::WallTime)
    };
    let (report, ended, balanced) = match setup {
        Some(setup) => {
            let (report, ended, balanced) =
                balanced_simulation::run(world, setup, live.until_ns, end)?;
            (report, ended, Some(balanced))
        }
        None => {
            let ended = run_until(&mut world, live.until_ns, end);
            (world.report(), ended, None)
        }
    };
    Ok(SimulationRun { report, ended, wall_ns: nanoseconds(began.elapsed()), balanced })
}

/// Runs a world until its time is over, or until another condition ends it, which is checked every
/// few milliseconds.
pub fn run_until(
    world: &mut World,
    until_ns: u64,
    mut other: impl FnMut(&World) -> Option<EndReason>,
) -> EndReason {
    while !world.run_events(until_ns, EVENTS) {
        if let Some(ended) = other(world) {
            return ended;
        }
    }
    EndReason::VirtualTime
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
