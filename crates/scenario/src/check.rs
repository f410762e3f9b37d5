//! Consistency checks on a scenario whose values are of the right kinds. A flaw names the value, so
//! that the reader of a text can report its line.

mod faults;
mod hotplug;
mod invalid_value;
mod machine;
mod workloads;

use crate::limits::{
    ACTIONS_MAX, FORKS_MAX, MIGRATIONS_MAX, PERIOD_NS_MIN, SAMPLES_MAX, TASKS_MAX, TIME_NS_MAX,
    WORKLOADS_MAX,
};
use crate::{Action, ActionKind, REPORT, Scenario, SchedulerKind, exact, suggest};
use invalid_value::{InvalidValue, ValuePath, ensure};

/// Checks everything but the order of actions.
pub(crate) fn scenario(scenario: &Scenario) -> Result<(), InvalidValue> {
    machine::check(&scenario.machine)?;
    times(scenario)?;
    report(&scenario.report)?;
    counts(scenario)?;
    faults::check(scenario)?;
    workloads::check(scenario)?;
    numa_balancing(scenario)
}

/// Checks that no other balancer is on: the kernel has one at a time, and hint faults belong to
/// NUMA balancing alone.
fn numa_balancing(scenario: &Scenario) -> Result<(), InvalidValue> {
    let on = scenario.numa_balancing;
    let blind = scenario.scheduler == SchedulerKind::NumaUnaware;
    let what = || "a scheduler that balances beside numa-balancing".to_owned();
    ensure(!on || blind, ValuePath::root("scheduler"), what, "\"blind\", which goes with it")?;
    let lazy = |action: &Action| action.kind == ActionKind::MigrateOnFault;
    let index = scenario.actions.iter().position(lazy);
    let spot = ValuePath::of("action", index.unwrap_or(0), "do");
    let what = || "faults that move pages beside numa-balancing".to_owned();
    ensure(!on || index.is_none(), spot, what, "other actions, or numa-balancing = false")
}

/// Checks the order of actions.
pub(crate) fn action_order(actions: &[Action]) -> Result<(), InvalidValue> {
    let late = actions.windows(2).position(|pair| pair[0].at_ns > pair[1].at_ns);
    let spot = ValuePath::of("action", late.map_or(0, |late| late + 1), "at");
    ensure(late.is_none(), spot, || "is before the action above".into(), "the order of time")
}

fn times(scenario: &Scenario) -> Result<(), InvalidValue> {
    let (time, sample) = (scenario.time_ns, scenario.sample_ns);
    ensure(
        (PERIOD_NS_MIN..=TIME_NS_MAX).contains(&time),
        ValuePath::root("time"),
        || format!("a run of {}", exact::ns(time)),
        "a time from 1us to a day, 86400s",
    )?;
    let least = PERIOD_NS_MIN.max(time / SAMPLES_MAX);
    ensure(
        (least..=time).contains(&sample),
        ValuePath::root("sample"),
        || format!("a point every {}", exact::ns(sample)),
        format!(
            "{}, which makes {SAMPLES_MAX} points at most, to {}",
            exact::ns(least),
            exact::ns(time)
        ),
    )
}

fn report(report: &[String]) -> Result<(), InvalidValue> {
    for (index, word) in report.iter().enumerate() {
        let known = REPORT.contains(&word.as_str());
        let what = || format!("'{word}' is no part of a report");
        ensure(known, ValuePath::root("report"), what, suggest::expected_one_of(word, &REPORT))?;
        let what = || format!("'{word}' stands twice");
        ensure(!report[..index].contains(word), ValuePath::root("report"), what, "each part once")?;
    }
    Ok(())
}

fn counts(scenario: &Scenario) -> Result<(), InvalidValue> {
    let (workloads, actions) = (scenario.workloads.len(), scenario.actions.len());
    ensure(
        workloads <= WORKLOADS_MAX,
        ValuePath::of("workload", WORKLOADS_MAX, "name"),
        || format!("{workloads} workloads"),
        format!("{WORKLOADS_MAX} at most"),
    )?;
    ensure(
        actions <= ACTIONS_MAX,
        ValuePath::of("action", ACTIONS_MAX, "at"),
        || format!("{actions} actions"),
        format!("{ACTIONS_MAX} at most"),
    )?;
    let (mut ways, mut forks) = (0, 0);
    for (index, action) in scenario.actions.iter().enumerate() {
        match action.kind {
            ActionKind::Migrate { times, .. } => ways += u64::from(times),
            ActionKind::Fork { .. } => {
                let of = scenario.workloads.iter().filter(|each| each.name == action.workload);
                forks += of.map(|each| u64::from(each.processes)).sum::<u64>();
            }
            _ => {}
        }
        let what = || format!("with this action processes have {forks} children");
        let spot = ValuePath::of("action", index, "do");
        ensure(forks <= FORKS_MAX, spot, what, format!("{FORKS_MAX} children at most"))?;
        let what = || format!("with this action memory goes {ways} times");
        let spot = ValuePath::of("action", index, "times");
        ensure(ways <= MIGRATIONS_MAX, spot, what, format!("{MIGRATIONS_MAX} times at most"))?;
    }
    let mut tasks = 0_u64;
    for (index, workload) in scenario.workloads.iter().enumerate() {
        tasks = tasks.saturating_add(workload.tasks());
        let what = || format!("with this workload there are {tasks} threads");
        let more = if workload.threads > workload.processes { "threads" } else { "processes" };
        let spot = ValuePath::of("workload", index, more);
        ensure(tasks <= TASKS_MAX, spot, what, format!("{TASKS_MAX} threads at most"))?;
    }
    Ok(())
}
