//! Reads actions on running programs.

use nodeward_model::{Cpumask, NodeId, units};

use super::{Item, TIME, TIME_OR_ZERO};
use crate::error::Fault;
use crate::limits::CPUS_MAX;
use crate::tree::Table;
use crate::{Action, ActionKind};

pub(crate) const KEYS: &[&str] = &["at", "workload", "do"];
/// The keys that only some kinds have.
pub(crate) const KIND_KEYS: &[&str] = &["from", "to", "times", "for", "cpus", "node"];

/// The kinds of actions, with their keys.
#[derive(Clone, Copy)]
enum Do {
    Migrate,
    MigrateOnFault,
    Home,
    Kill,
    Fork,
    Freeze,
    CpusOff,
    CpusOn,
    MemoryOff,
    MemoryOn,
}

const WORDS: &[(&str, Do)] = &[
    ("migrate", Do::Migrate),
    ("migrate-on-fault", Do::MigrateOnFault),
    ("home", Do::Home),
    ("kill", Do::Kill),
    ("fork", Do::Fork),
    ("freeze", Do::Freeze),
    ("cpus-off", Do::CpusOff),
    ("cpus-on", Do::CpusOn),
    ("memory-off", Do::MemoryOff),
    ("memory-on", Do::MemoryOn),
];

pub(super) fn action(table: &Table) -> Result<Action, Fault> {
    let names = "`do = \"migrate\"`, \"migrate-on-fault\", \"home\", \"kill\", \"fork\", \
                 \"freeze\", \"cpus-off\", \"cpus-on\", \"memory-off\" or \"memory-on\"";
    let what = table.need("do", names, |item| item.word(WORDS))?;
    let keys: &[&str] = match what {
        Do::Migrate => &["from", "to", "times"],
        Do::Home => &["to"],
        Do::MigrateOnFault | Do::Kill => &[],
        Do::Fork | Do::Freeze => &["for"],
        Do::CpusOff | Do::CpusOn => &["cpus"],
        Do::MemoryOff | Do::MemoryOn => &["node"],
    };
    let is_of_machine = matches!(what, Do::CpusOff | Do::CpusOn | Do::MemoryOff | Do::MemoryOn);
    table.only(&[if is_of_machine { &["at", "do"] } else { KEYS }, keys])?;
    let time = |item: &Item| item.read(TIME_OR_ZERO, super::time_or_zero);
    let workload = match is_of_machine {
        true => "",
        false => table.need("workload", "a workload's name", Item::as_text)?,
    };
    Ok(Action {
        at_ns: table.need("at", "a time such as `at = \"1s\"`", time)?,
        workload: workload.to_owned(),
        kind: kind(what, table)?,
    })
}

fn kind(what: Do, table: &Table) -> Result<ActionKind, Fault> {
    let node = |key: &str| -> Result<NodeId, Fault> {
        table.need(key, &format!("a node, such as `{key} = 1`"), Item::node)
    };
    let cpus = || -> Result<Cpumask, Fault> {
        table.need("cpus", "CPUs, such as `cpus = \"2-3\"`", |item| item.mask(CPUS_MAX))
    };
    let time = |item: &Item| item.read(TIME, |text| units::parse_duration_ns(text).ok());
    let lasts =
        || -> Result<u64, Fault> { table.need("for", "a time such as `for = \"10ms\"`", time) };
    Ok(match what {
        Do::Migrate => ActionKind::Migrate {
            from: node("from")?,
            to: node("to")?,
            times: table.count("times")?.unwrap_or(1),
        },
        Do::Home => ActionKind::Home { to: node("to")? },
        Do::MigrateOnFault => ActionKind::MigrateOnFault,
        Do::Kill => ActionKind::Kill,
        Do::Fork => ActionKind::Fork { for_ns: lasts()? },
        Do::Freeze => ActionKind::Freeze { for_ns: lasts()? },
        Do::CpusOff => ActionKind::CpusOff { cpus: cpus()? },
        Do::CpusOn => ActionKind::CpusOn { cpus: cpus()? },
        Do::MemoryOff => ActionKind::MemoryOff { node: node("node")? },
        Do::MemoryOn => ActionKind::MemoryOn { node: node("node")? },
    })
}
