//! A run from its beginning to its end, whatever ends it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use nodeward_model::units::show_ns;
use nodeward_scenario::Scenario;
use nodeward_sim::{Observer, Report, World};

use crate::args::SimArgs;
use crate::progress::Shown;

/// Between two looks at the clock: some milliseconds.
const EVENTS: u32 = 4096;

/// What ended a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Its virtual time was over.
    Time,
    /// `--limit-wall`.
    Wall,
    /// Ctrl-C.
    Stopped,
}

impl Ended {
    /// The name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Wall => "wall",
            Self::Stopped => "stopped",
        }
    }
}

/// How a run went.
pub struct Run {
    /// What the simulator has to tell.
    pub report: Report,
    /// What ended it.
    pub ended: Ended,
    /// How long it took here, without what came before virtual time began.
    pub wall_ns: u64,
}

/// A run while it goes on.
pub struct Live {
    until_ns: u64,
    now_ns: AtomicU64,
    events: AtomicU64,
    stopped: AtomicBool,
}

impl Live {
    /// Of a run of so long.
    pub fn new(until_ns: u64) -> Self {
        let [now_ns, events] = [0; 2].map(AtomicU64::new);
        Self { until_ns, now_ns, events, stopped: AtomicBool::new(false) }
    }

    fn note(&self, world: &World) {
        self.now_ns.store(world.now_ns(), Ordering::Relaxed);
        self.events.store(world.counters.events, Ordering::Relaxed);
    }
}

impl Shown for Live {
    fn done_of_total(&self) -> (u64, u64) {
        (self.now_ns.load(Ordering::Relaxed), self.until_ns)
    }

    fn words(&self, elapsed: Duration) -> String {
        let (now_ns, events) =
            (self.now_ns.load(Ordering::Relaxed), self.events.load(Ordering::Relaxed));
        let wall_ns = nanoseconds(elapsed);
        let speed = speed(now_ns, wall_ns);
        let rate = events as f64 / elapsed.as_secs_f64().max(1e-3) / 1e6;
        format!("{} simulated, {speed:.2} x real time, {rate:.1} M events/s", show_ns(now_ns))
    }

    fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }
}

/// Runs a scenario until something ends it.
pub fn run(
    scenario: &Scenario,
    args: &SimArgs,
    observer: Option<Box<dyn Observer>>,
    live: &Live,
) -> Run {
    let called = Instant::now();
    let mut world = World::new(scenario, args.seed);
    if let Some(observer) = observer {
        world.observe(observer);
    }
    let began = Instant::now();
    let wall = args.limit_wall.map(Duration::from_nanos);
    let ended = until(&mut world, live.until_ns, |world| {
        live.note(world);
        if live.stopped.load(Ordering::Relaxed) {
            return Some(Ended::Stopped);
        }
        wall.is_some_and(|wall| called.elapsed() >= wall).then_some(Ended::Wall)
    });
    live.note(&world);
    Run { report: world.report(), ended, wall_ns: nanoseconds(began.elapsed()) }
}

/// Lets a world go on until its time is over, or something else ends it, which is asked for every
/// few milliseconds.
pub fn until(
    world: &mut World,
    until_ns: u64,
    mut other: impl FnMut(&World) -> Option<Ended>,
) -> Ended {
    while !world.run_some(until_ns, EVENTS) {
        if let Some(ended) = other(world) {
            return ended;
        }
    }
    Ended::Time
}

/// Virtual time in a unit of time here.
pub fn speed(virtual_ns: u64, wall_ns: u64) -> f64 {
    virtual_ns as f64 / wall_ns.max(1) as f64
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
