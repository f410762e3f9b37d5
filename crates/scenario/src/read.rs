//! Converts a tree to a scenario: every key must be known, and every value of its kind. Consistency
//! between values is not checked here.

mod action;
mod faults;
mod fields;
mod machine;
mod workload;

use crate::error::SourceError;
use crate::toml_tree::TomlTable;
use crate::{Scenario, SchedulerKind};
use fields::read_tables;

pub(crate) use action::{KEYS as ACTION_KEYS, KIND_KEYS as ACTION_KIND_KEYS};
pub(crate) use faults::KEYS as FAULT_KEYS;
pub(crate) use machine::{LINK_KEYS, NODE_KEYS};
pub(crate) use workload::{KEYS as WORKLOAD_KEYS, keys_of};

/// The keys outside of all tables.
pub(crate) const ROOT_KEYS: &[&str] =
    &["about", "distances", "symmetric", "scheduler", "numa-balancing", "time", "sample", "report"];
/// The tables.
pub(crate) const TABLES: &[&str] = &["machine", "node", "link", "workload", "action", "faults"];

/// Default simulated time.
const TIME_DEFAULT_NS: u64 = 1_000_000_000;
/// Default number of points of a time series.
const SAMPLES_DEFAULT: u64 = 100;

/// Reads a scenario; its actions are in the order of the text.
pub(crate) fn scenario(name: &str, root: &TomlTable) -> Result<Scenario, SourceError> {
    root.reject_unknown_keys(&[ROOT_KEYS, TABLES])?;
    let time_ns = root.time("time")?.unwrap_or(TIME_DEFAULT_NS);
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
        workloads: read_tables(root, "workload", workload::workload)?,
        scheduler: scheduler.unwrap_or_default(),
        numa_balancing: root.flag("numa-balancing")?,
        actions: read_tables(root, "action", action::action)?,
        faults: root.optional("faults", faults::faults)?,
        time_ns,
        sample_ns: root.time("sample")?.unwrap_or(time_ns.div_ceil(SAMPLES_DEFAULT)),
        report: report(root)?,
    })
}

fn report(root: &TomlTable) -> Result<Vec<String>, SourceError> {
    let Some(list) = root.items.get("report") else { return Ok(Vec::new()) };
    list.list("a list such as [\"locality\"]")?
        .iter()
        .map(|item| item.as_text().map(str::to_owned))
        .collect()
}
