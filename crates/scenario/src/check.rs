//! Consistency checks on a scenario whose values are of the right kinds. A flaw names the value, so
//! that the reader of a text can report its line.

mod faults;
mod hotplug;
mod machine;
mod workloads;

use std::fmt;

use crate::error::ErrorLocation;
use crate::limits::{
    ACTIONS_MAX, FORKS_MAX, MIGRATIONS_MAX, PERIOD_NS_MIN, SAMPLES_MAX, TASKS_MAX, TIME_NS_MAX,
    WORKLOADS_MAX,
};
use crate::toml_tree::{TomlTable, TomlValue};
use crate::{Action, ActionKind, REPORT, Scenario, SchedulerKind, exact, suggest};

/// A violated rule.
#[derive(Debug)]
pub(crate) struct InvalidValue {
    pub path: ValuePath,
    pub problem: String,
    pub expected: String,
}

/// The position of a value in a scenario: a key, perhaps of a table, perhaps of one of several
/// tables.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ValuePath {
    /// The table, or the key itself if it is in none.
    table: &'static str,
    index: Option<usize>,
    key: Option<&'static str>,
}

impl ValuePath {
    pub fn root(key: &'static str) -> Self {
        Self { table: key, index: None, key: None }
    }

    pub fn machine(key: &'static str) -> Self {
        Self { table: "machine", index: None, key: Some(key) }
    }

    pub fn faults(key: &'static str) -> Self {
        Self { table: "faults", index: None, key: Some(key) }
    }

    pub fn of(table: &'static str, index: usize, key: &'static str) -> Self {
        Self { table, index: Some(index), key: Some(key) }
    }

    pub fn row(index: usize) -> Self {
        Self { table: "distances", index: Some(index), key: None }
    }

    /// Returns the place where the value was written. If it was not written, the place of the
    /// table, or the first line.
    pub fn location_in(&self, root: &TomlTable) -> ErrorLocation {
        let Some(mut item) = root.items.get(self.table) else { return root.location.clone() };
        if let (Some(index), TomlValue::List(items)) = (self.index, &item.value) {
            item = items.get(index).unwrap_or(item);
        }
        let key = self.key.and_then(|key| item.as_table()?.items.get(key));
        key.unwrap_or(item).location.clone()
    }
}

impl fmt::Display for ValuePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.table)?;
        if let Some(index) = self.index {
            write!(f, "[{index}]")?;
        }
        self.key.map_or(Ok(()), |key| write!(f, ".{key}"))
    }
}

/// Refuses a value unless a condition holds.
fn ensure(
    holds: bool,
    spot: ValuePath,
    what: impl FnOnce() -> String,
    expected: impl Into<String>,
) -> Result<(), InvalidValue> {
    if holds {
        Ok(())
    } else {
        Err(InvalidValue { path: spot, problem: what(), expected: expected.into() })
    }
}

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
