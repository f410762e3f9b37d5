//! One case from its beginning to its end.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use nodeward_machine::Machine;
use nodeward_sim::{Perfetto, World};

use crate::check::{Checker, Finding, Verdict, ensure, pages};
use crate::draw::{Case, Plan, Policy};
use crate::happened::Happened;
use crate::rounds::Rounds;
use crate::watched::Watched;

/// Events between two looks.
const SLICE: u32 = 200;
/// More events are not worth the time: rounds end, and are not judged.
const EVENTS_MAX: u64 = 400_000;
/// Events between two looks at a machine whose memory is moved.
const SLICE_OF_ROUNDS: u32 = 2_000;
/// How long a trace may be, in bytes.
const TRACE_BYTES: u64 = 100_000;
/// Looks between two rounds.
const LOOKS: u64 = 4;
/// Rounds while things go wrong.
const ROUNDS_UNSAFE: u64 = 5;
/// Rounds until memory must be where it is wanted once nothing goes wrong any more.
pub const ROUNDS_MAX: u64 = 6;
/// Of 1000 pages so many may be elsewhere: those that came or were touched since the last round.
pub const MISPLACED_MILLI: u64 = 20;
/// Moves that the scenario asked for have ended by then, in nanoseconds after its end.
const SETTLED_NS: u64 = 5_000_000_000;
/// Between two looks whether they have, in nanoseconds.
const SETTLE_NS: u64 = 1_000_000;

/// How a case went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// What happened.
    pub happened: Happened,
    /// Rounds until memory was where it was wanted; none if that was not asked.
    pub rounds: Option<u64>,
}

/// Runs a case with all checkers.
///
/// # Errors
/// What the first of them found.
pub fn run(case: &Case) -> Result<Done, Finding> {
    let ran = catch_unwind(AssertUnwindSafe(|| match &case.plan {
        Plan::Watch { events, twice } => watch(case, *events, *twice),
        Plan::Rounds(policy) => rounds(case, policy),
    }));
    ran.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        let what = text.unwrap_or("no words").to_owned();
        Err(Finding { checker: Checker::Panics, at_ns: 0, what })
    })
}

fn watch(case: &Case, events: u64, twice: bool) -> Result<Done, Finding> {
    let first = watch_once(case, events)?;
    if twice {
        let again = watch_once(case, events)?;
        if again != first {
            let what = format!("two runs of one seed come to {first:?} and {again:?}");
            return Err(Finding { checker: Checker::Repeats, at_ns: first.1, what });
        }
    }
    let mut happened = Happened::default();
    happened.add("machines watched", 1);
    happened.join(&first.2);
    Ok(Done { happened, rounds: None })
}

/// A run, and what must be the same in another one.
fn watch_once(case: &Case, events: u64) -> Result<(u64, u64, Happened), Finding> {
    let mut world = World::new(&case.scenario, case.run_seed);
    let trace = Perfetto::new(Vec::new(), &case.scenario, TRACE_BYTES);
    let trace = Arc::new(Mutex::new(trace));
    world.observe(Box::new(Arc::clone(&trace)));
    let machine = Watched::new(world, u64::MAX);
    let sim = &machine.sim;
    loop {
        let is_over = sim.run_some(case.scenario.time_ns, SLICE);
        machine.look()?;
        machine.judge(sim.look(landed))?;
        if is_over || sim.look(|world| world.counters.events) >= events {
            break;
        }
    }
    let report = sim.look(|world| serde_json::to_string(&world.report()).is_ok());
    let traced = trace.lock().unwrap_or_else(PoisonError::into_inner).end(sim.now_ns()).is_ok();
    let what = || "a report or a trace cannot be written".to_owned();
    machine.judge(ensure(report && traced, Checker::Panics, what))?;
    Ok(sim.look(|world| (world.trace_hash(), world.now_ns(), Happened::of(world))))
}

/// What moves and faults are told to have moved, against what came into sight, where nobody else
/// moves pages.
fn landed(world: &World) -> Verdict {
    let Some(landed) = world.census().landed else { return Ok(()) };
    let moves = world.moves.iter();
    let told = moves.map(|record| record.account.moved).sum::<u64>() + world.counters.lazy_pages;
    // What leaves a node whose memory goes is told of by nobody.
    let all_told = world.hotplugs.is_empty() && has_settled(world);
    pages::landed(landed, told, all_told)
}

fn rounds(case: &Case, policy: &Policy) -> Result<Done, Finding> {
    let machine = Watched::new(World::new(&case.scenario, case.run_seed), EVENTS_MAX);
    let rounds = Rounds::new(&machine, policy);
    let mut done = Done::default();
    done.happened.add("machines moved in rounds", 1);
    for _ in 0..ROUNDS_UNSAFE {
        pause(&machine, policy.pause_ns)?;
        if machine.is_over() || machine.now_ns() >= case.scenario.time_ns {
            break;
        }
        rounds.round(&mut done.happened)?;
    }
    settle(&machine, case)?;
    for round in 1..=ROUNDS_MAX {
        if machine.is_over() {
            done.happened.add("cases cut short", 1);
            break;
        }
        let came = machine.sim.look(came);
        let excused = rounds.round(&mut done.happened)?;
        let share = rounds.share(&excused);
        let came = machine.sim.look(self::came) - came;
        if share.is_within(MISPLACED_MILLI, came) {
            done.rounds = Some(round);
            break;
        }
        if round == ROUNDS_MAX && !machine.is_over() {
            let (misplaced, all) = (share.misplaced, share.all);
            let what = format!("after {round} rounds {misplaced} of {all} pages are misplaced");
            machine.judge(Err((Checker::Liveness, what)))?;
        }
        pause(&machine, policy.pause_ns)?;
    }
    done.happened.join(&machine.sim.look(Happened::of));
    Ok(done)
}

/// Pages that came from nowhere or by a fault to where they are, so far.
fn came(world: &World) -> u64 {
    world.counters.faulted_pages + world.counters.lazy_pages
}

/// Whether everything that the scenario asked for has ended.
pub(crate) fn has_settled(world: &World) -> bool {
    let moves = world.moves.iter().map(|record| record.ended_ns);
    moves.chain(world.hotplugs.iter().map(|record| record.ended_ns)).all(|end| end.is_some())
}

/// Lets it run for so long, with looks in between.
fn pause(machine: &Watched, ns: u64) -> Result<(), Finding> {
    let began_ns = machine.now_ns();
    (1..=LOOKS).try_for_each(|look| run_until(machine, began_ns + ns * look / LOOKS))
}

/// Lets it run until nothing goes wrong any more: what is planned has happened, faults are over,
/// and moves that the scenario asked for have ended.
fn settle(machine: &Watched, case: &Case) -> Result<(), Finding> {
    let end_ns = case.scenario.time_ns;
    run_until(machine, end_ns)?;
    let last_ns = machine.now_ns() + SETTLED_NS;
    loop {
        run_until(machine, machine.now_ns() + SETTLE_NS)?;
        if machine.is_over() || machine.sim.look(has_settled) || machine.now_ns() >= last_ns {
            return Ok(());
        }
    }
}

fn run_until(machine: &Watched, until_ns: u64) -> Result<(), Finding> {
    loop {
        let is_over = machine.sim.run_some(until_ns, SLICE_OF_ROUNDS);
        machine.look()?;
        if is_over || machine.is_over() {
            return Ok(());
        }
    }
}
