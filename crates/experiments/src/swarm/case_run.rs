//! Runs a case from beginning to end.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use nodeward_machine::Machine;
use nodeward_sim::{Perfetto, World};

use crate::swarm::check::{CheckFinding, Checker, CheckerResult, ensure, pages};
use crate::swarm::checked_machine::CheckedMachine;
use crate::swarm::event_counts::EventCounts;
use crate::swarm::generator::{CasePlan, GroupPolicy, RoundPolicy, SwarmCase};
use crate::swarm::group_rounds::GroupRounds;
use crate::swarm::migration_rounds::{MigrationRounds, has_segments, has_settled};

/// Events between two checks.
const EVENTS_PER_CHECK: u32 = 200;
/// Event limit. A case that exceeds it ends without a verdict on its rounds.
const EVENTS_MAX: u64 = 400_000;
/// Events between two checks on a machine whose memory is moved.
const EVENTS_PER_CHECK_IN_ROUNDS: u32 = 2_000;
/// Maximum length of a trace, in bytes.
const TRACE_BYTES: u64 = 100_000;
/// Checks between two rounds.
const CHECKS_PER_PAUSE: u64 = 4;
/// Rounds during the faults.
const ROUNDS_WITH_FAULTS: u64 = 5;
/// Maximum number of rounds until memory is on its wanted nodes once faults have ended.
pub const ROUNDS_MAX: u64 = 6;
/// Pages per 1000 that may be misplaced: those that were faulted in or touched since the last
/// round.
pub const MISPLACED_MILLI: u64 = 20;
/// Time after the end of the scenario by which its own moves have ended, in nanoseconds.
const SETTLE_TIMEOUT_NS: u64 = 5_000_000_000;
/// Interval of checks whether they have ended, in nanoseconds.
const SETTLE_POLL_NS: u64 = 1_000_000;

/// The result of a case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CaseResult {
    /// Coverage counts.
    pub event_counts: EventCounts,
    /// Rounds until memory was on its wanted nodes; `None` if that was not checked.
    pub rounds: Option<u64>,
}

/// Runs a case with all checkers.
///
/// # Errors
/// The first finding.
pub fn run(case: &SwarmCase) -> Result<CaseResult, CheckFinding> {
    let ran = catch_unwind(AssertUnwindSafe(|| match &case.plan {
        CasePlan::Observe { events, twice } => observe_case(case, *events, *twice),
        CasePlan::Rounds(policy) => rounds(case, policy),
        CasePlan::Groups(policy) => balance_groups(case, policy),
    }));
    let ran = ran.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        let what = text.unwrap_or("no words").to_owned();
        Err(CheckFinding { checker: Checker::Panics, at_ns: 0, problem: what })
    });
    ran.map(|mut result| {
        let with_segments = has_segments(&case.scenario).into();
        result.event_counts.add("machines with segments", with_segments);
        result
    })
}

fn observe_case(case: &SwarmCase, events: u64, twice: bool) -> Result<CaseResult, CheckFinding> {
    let first = observe_once(case, events)?;
    if twice {
        let again = observe_once(case, events)?;
        if again != first {
            let what = format!("two runs of one seed come to {first:?} and {again:?}");
            return Err(CheckFinding { checker: Checker::Repeats, at_ns: first.1, problem: what });
        }
    }
    let mut happened = EventCounts::default();
    happened.add("machines watched", 1);
    happened.merge(&first.2);
    Ok(CaseResult { event_counts: happened, rounds: None })
}

/// Runs a case once. Returns the values that must be equal in another run.
fn observe_once(case: &SwarmCase, events: u64) -> Result<(u64, u64, EventCounts), CheckFinding> {
    let mut world = World::new(&case.scenario, case.run_seed);
    let trace = Perfetto::new(Vec::new(), &case.scenario, TRACE_BYTES);
    let trace = Arc::new(Mutex::new(trace));
    world.set_observer(Box::new(Arc::clone(&trace)));
    let machine = CheckedMachine::new(world, u64::MAX);
    let sim = &machine.sim;
    loop {
        let is_over = sim.run_events(case.scenario.time_ns, EVENTS_PER_CHECK);
        machine.check()?;
        machine.record_result(sim.inspect(check_mapped_copies))?;
        if is_over || sim.inspect(|world| world.counters.events) >= events {
            break;
        }
    }
    let report = sim.inspect(|world| serde_json::to_string(&world.report()).is_ok());
    let traced = trace.lock().unwrap_or_else(PoisonError::into_inner).end(sim.now_ns()).is_ok();
    let what = || "a report or a trace cannot be written".to_owned();
    machine.record_result(ensure(report && traced, Checker::Panics, what))?;
    Ok(sim.inspect(|world| (world.trace_hash(), world.now_ns(), EventCounts::from_world(world))))
}

/// Compares the pages that moves and faults report as moved with those that became visible, where
/// nothing else moves pages.
fn check_mapped_copies(world: &World) -> CheckerResult {
    let Some(landed) = world.census().mapped_copies else { return Ok(()) };
    let moves = world.moves.iter();
    let told = moves.map(|record| record.account.moved).sum::<u64>() + world.counters.lazy_pages;
    // Pages that leave a node whose memory goes offline are not reported.
    let all_told = world.hotplugs.is_empty() && has_settled(world);
    pages::check_mapped_copies(landed, told, all_told)
}

fn rounds(case: &SwarmCase, policy: &RoundPolicy) -> Result<CaseResult, CheckFinding> {
    let machine = CheckedMachine::new(World::new(&case.scenario, case.run_seed), EVENTS_MAX);
    let rounds = MigrationRounds::new(&machine, policy);
    let mut done = CaseResult::default();
    done.event_counts.add("machines moved in rounds", 1);
    for _ in 0..ROUNDS_WITH_FAULTS {
        run_with_checks(&machine, policy.pause_ns)?;
        if machine.is_over() || machine.now_ns() >= case.scenario.time_ns {
            break;
        }
        rounds.round(&mut done.event_counts)?;
    }
    run_until_settled(&machine, case)?;
    for round in 1..=ROUNDS_MAX {
        if machine.is_over() {
            done.event_counts.add("cases cut short", 1);
            break;
        }
        let came = machine.sim.inspect(arrived_pages);
        let excused = rounds.round(&mut done.event_counts)?;
        let share = rounds.misplaced_share(&excused);
        let came = machine.sim.inspect(arrived_pages) - came;
        if share.is_within(MISPLACED_MILLI, came) {
            done.rounds = Some(round);
            break;
        }
        if round == ROUNDS_MAX && !machine.is_over() {
            let (misplaced, all) = (share.misplaced, share.all);
            let what = format!("after {round} rounds {misplaced} of {all} pages are misplaced");
            machine.record_result(Err((Checker::Liveness, what)))?;
        }
        run_with_checks(&machine, policy.pause_ns)?;
    }
    done.event_counts.merge(&machine.sim.inspect(EventCounts::from_world));
    Ok(done)
}

/// Lets balancers place groups during the faults, one after the other.
fn balance_groups(case: &SwarmCase, policy: &GroupPolicy) -> Result<CaseResult, CheckFinding> {
    let machine = CheckedMachine::new(World::new(&case.scenario, case.run_seed), EVENTS_MAX);
    let mut rounds = GroupRounds::new(&machine, case, policy);
    let mut done = CaseResult::default();
    done.event_counts.add("machines with groups", 1);
    for &life in &policy.lives {
        rounds
            .live(life, &mut done.event_counts, || run_with_checks(&machine, policy.interval_ns))?;
    }
    run_until_settled(&machine, case)?;
    done.event_counts.merge(&machine.sim.inspect(EventCounts::from_world));
    Ok(done)
}

/// Returns the number of pages faulted in or moved by a fault so far.
fn arrived_pages(world: &World) -> u64 {
    world.counters.faulted_pages + world.counters.lazy_pages
}

/// Runs the machine for a time, with checks in between.
fn run_with_checks(machine: &CheckedMachine, ns: u64) -> Result<(), CheckFinding> {
    let began_ns = machine.now_ns();
    (1..=CHECKS_PER_PAUSE)
        .try_for_each(|look| run_until(machine, began_ns + ns * look / CHECKS_PER_PAUSE))
}

/// Runs the machine until all planned actions have happened, faults have ended, and moves of the
/// scenario have ended.
fn run_until_settled(machine: &CheckedMachine, case: &SwarmCase) -> Result<(), CheckFinding> {
    let end_ns = case.scenario.time_ns;
    run_until(machine, end_ns)?;
    let last_ns = machine.now_ns() + SETTLE_TIMEOUT_NS;
    loop {
        run_until(machine, machine.now_ns() + SETTLE_POLL_NS)?;
        if machine.is_over() || machine.sim.inspect(has_settled) || machine.now_ns() >= last_ns {
            return Ok(());
        }
    }
}

fn run_until(machine: &CheckedMachine, until_ns: u64) -> Result<(), CheckFinding> {
    loop {
        let is_over = machine.sim.run_events(until_ns, EVENTS_PER_CHECK_IN_ROUNDS);
        machine.check()?;
        if is_over || machine.is_over() {
            return Ok(());
        }
    }
}
