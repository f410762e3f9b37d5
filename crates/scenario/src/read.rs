//! Converts a tree to a scenario: every key must be known, and every value of its kind. Consistency
//! between values is not checked here.

mod action;
mod faults;
mod fields;
mod group;
mod machine;
mod workload;

use crate::error::SourceError;
use crate::toml_tree::TomlTable;
use crate::{Scenario, SchedulerKind, Workload, WorkloadKind};
use fields::read_tables;

pub(crate) use action::{KEYS as ACTION_KEYS, KIND_KEYS as ACTION_KIND_KEYS};
pub(crate) use faults::KEYS as FAULT_KEYS;
pub(crate) use group::KEYS as GROUP_KEYS;
pub(crate) use machine::{LINK_KEYS, NODE_KEYS};
pub(crate) use workload::{KEYS as WORKLOAD_KEYS, keys_of};

/// The keys outside of all tables.
pub(crate) const ROOT_KEYS: &[&str] =
    &["about", "distances", "symmetric", "scheduler", "numa-balancing", "time", "sample", "report"];
/// The tables.
pub(crate) const TABLES: &[&str] =
    &["machine", "node", "link", "workload", "group", "action", "faults"];

/// Default simulated time.
const TIME_DEFAULT_NS: u64 = 1_000_000_000;
/// Default number of points of a time series.
const SAMPLES_DEFAULT: u64 = 100;
/// Limit of a run that lasts until all work is done.
const TIME_UNTIL_DONE_NS: u64 = 900_000_000_000;
/// Default interval between points of such a run.
const SAMPLE_UNTIL_DONE_NS: u64 = 100_000_000;

/// Reads a scenario; its actions are in the order of the text.
pub(crate) fn scenario(name: &str, root: &TomlTable) -> Result<Scenario, SourceError> {
    root.reject_unknown_keys(&[ROOT_KEYS, TABLES])?;
    let workloads = read_tables(root, "workload", workload::workload)?;
    let until_done = workloads.iter().any(has_passes);
    let time_ns = time(root, until_done)?;
    let schedulers = [
        ("blind", SchedulerKind::NumaUnaware),
        ("home", SchedulerKind::HomeAware),
        ("numad", SchedulerKind::SchedNuma2012),
    ];
    let scheduler = root.word("scheduler", &schedulers)?;
    Ok(Scenario {
        name: name.to_owned(),
        about: root.text("about")?.unwrap_or_default().to_owned(),
        machine: machine::machine(root)?,
        workloads,
        groups: read_tables(root, "group", group::group)?,
        scheduler: scheduler.unwrap_or_default(),
        numa_balancing: root.flag("numa-balancing")?,
        actions: read_tables(root, "action", action::action)?,
        faults: root.optional("faults", faults::faults)?,
        time_ns,
        until_done,
        sample_ns: root.time("sample")?.unwrap_or(match until_done {
            true => SAMPLE_UNTIL_DONE_NS,
            false => time_ns.div_ceil(SAMPLES_DEFAULT),
        }),
        report: report(root)?,
    })
}

fn has_passes(workload: &Workload) -> bool {
    matches!(workload.kind, WorkloadKind::Triad { passes: 1.., .. })
}

/// Reads the simulated time. It is not given where passes end the run.
fn time(root: &TomlTable, until_done: bool) -> Result<u64, SourceError> {
    match root.time("time")? {
        Some(_) if until_done => {
            let what = "`time` and `passes` would each end the run".to_owned();
            Err(SourceError::new(&root.items["time"].location, what, "one of the two"))
        }
        Some(ns) => Ok(ns),
        None if until_done => Ok(TIME_UNTIL_DONE_NS),
        None => Ok(TIME_DEFAULT_NS),
    }
}

fn report(root: &TomlTable) -> Result<Vec<String>, SourceError> {
    let Some(list) = root.items.get("report") else { return Ok(Vec::new()) };
    list.list("a list such as [\"locality\"]")?
        .iter()
        .map(|item| item.as_text().map(str::to_owned))
        .collect()
}
