//! Runs a case from beginning to end.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use nodeward_machine::Machine;
use nodeward_sim::{Perfetto, World};

use crate::check::{Checker, Finding, Verdict, ensure, pages};
use crate::draw::{Case, Plan, Policy};
use crate::happened::Happened;
use crate::rounds::Rounds;
use crate::watched::Watched;

/// Events between two checks.
const SLICE: u32 = 200;
/// Event limit. A case that exceeds it ends without a verdict on its rounds.
const EVENTS_MAX: u64 = 400_000;
/// Events between two checks on a machine whose memory is moved.
const SLICE_OF_ROUNDS: u32 = 2_000;
/// Maximum length of a trace, in bytes.
const TRACE_BYTES: u64 = 100_000;
/// Checks between two rounds.
const LOOKS: u64 = 4;
/// Rounds during the faults.
const ROUNDS_UNSAFE: u64 = 5;
/// Maximum number of rounds until memory is on its wanted nodes once faults have ended.
pub const ROUNDS_MAX: u64 = 6;
/// Pages per 1000 that may be misplaced: those that were faulted in or touched since the last
/// round.
pub const MISPLACED_MILLI: u64 = 20;
/// Time after the end of the scenario by which its own moves have ended, in nanoseconds.
const SETTLED_NS: u64 = 5_000_000_000;
/// Interval of checks whether they have ended, in nanoseconds.
const SETTLE_NS: u64 = 1_000_000;

/// The result of a case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Coverage counts.
    pub happened: Happened,
    /// Rounds until memory was on its wanted nodes; `None` if that was not checked.
    pub rounds: Option<u64>,
}

/// Runs a case with all checkers.
///
/// # Errors
/// The first finding.
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

/// Runs a case once. Returns the values that must be equal in another run.
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

/// Compares the pages that moves and faults report as moved with those that became visible, where
/// nothing else moves pages.
fn landed(world: &World) -> Verdict {
    let Some(landed) = world.census().landed else { return Ok(()) };
    let moves = world.moves.iter();
    let told = moves.map(|record| record.account.moved).sum::<u64>() + world.counters.lazy_pages;
    // Pages that leave a node whose memory goes offline are not reported.
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

/// Returns the number of pages faulted in or moved by a fault so far.
fn came(world: &World) -> u64 {
    world.counters.faulted_pages + world.counters.lazy_pages
}

/// Returns whether all actions of the scenario have ended.
pub(crate) fn has_settled(world: &World) -> bool {
    let moves = world.moves.iter().map(|record| record.ended_ns);
    moves.chain(world.hotplugs.iter().map(|record| record.ended_ns)).all(|end| end.is_some())
}

/// Runs the machine for a time, with checks in between.
fn pause(machine: &Watched, ns: u64) -> Result<(), Finding> {
    let began_ns = machine.now_ns();
    (1..=LOOKS).try_for_each(|look| run_until(machine, began_ns + ns * look / LOOKS))
}

/// Runs the machine until all planned actions have happened, faults have ended, and moves of the
/// scenario have ended.
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
