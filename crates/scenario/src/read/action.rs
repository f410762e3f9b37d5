//! Reads actions on running programs.

use nodeward_model::{Cpumask, NodeId, units};

use super::fields::{TIME, TIME_OR_ZERO, time_or_zero};
use crate::error::SourceError;
use crate::limits::CPUS_MAX;
use crate::toml_tree::{TomlItem, TomlTable};
use crate::{Action, ActionKind};

pub(crate) const KEYS: &[&str] = &["at", "workload", "do"];
/// The keys that only some kinds have.
pub(crate) const KIND_KEYS: &[&str] = &["from", "to", "times", "for", "cpus", "node"];

const ACTION_WORDS: &[(&str, ActionWord)] = &[
    ("migrate", ActionWord::Migrate),
    ("migrate-on-fault", ActionWord::MigrateOnFault),
    ("home", ActionWord::Home),
    ("kill", ActionWord::Kill),
    ("fork", ActionWord::Fork),
    ("freeze", ActionWord::Freeze),
    ("cpus-off", ActionWord::CpusOff),
    ("cpus-on", ActionWord::CpusOn),
    ("memory-off", ActionWord::MemoryOff),
    ("memory-on", ActionWord::MemoryOn),
];

pub(super) fn action(table: &TomlTable) -> Result<Action, SourceError> {
    let names = "`do = \"migrate\"`, \"migrate-on-fault\", \"home\", \"kill\", \"fork\", \
                 \"freeze\", \"cpus-off\", \"cpus-on\", \"memory-off\" or \"memory-on\"";
    let what = table.required("do", names, |item| item.word(ACTION_WORDS))?;
    let keys: &[&str] = match what {
        ActionWord::Migrate => &["from", "to", "times"],
        ActionWord::Home => &["to"],
        ActionWord::MigrateOnFault | ActionWord::Kill => &[],
        ActionWord::Fork | ActionWord::Freeze => &["for"],
        ActionWord::CpusOff | ActionWord::CpusOn => &["cpus"],
        ActionWord::MemoryOff | ActionWord::MemoryOn => &["node"],
    };
    let is_of_machine = matches!(
        what,
        ActionWord::CpusOff | ActionWord::CpusOn | ActionWord::MemoryOff | ActionWord::MemoryOn
    );
    table.reject_unknown_keys(&[if is_of_machine { &["at", "do"] } else { KEYS }, keys])?;
    let time = |item: &TomlItem| item.read(TIME_OR_ZERO, time_or_zero);
    let workload = match is_of_machine {
        true => "",
        false => table.required("workload", "a workload's name", TomlItem::as_text)?,
    };
    Ok(Action {
        at_ns: table.required("at", "a time such as `at = \"1s\"`", time)?,
        workload: workload.to_owned(),
        kind: kind(what, table)?,
    })
}

/// The kinds of actions, with their keys.
#[derive(Clone, Copy)]
enum ActionWord {
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

fn kind(what: ActionWord, table: &TomlTable) -> Result<ActionKind, SourceError> {
    let node = |key: &str| -> Result<NodeId, SourceError> {
        table.required(key, &format!("a node, such as `{key} = 1`"), TomlItem::node)
    };
    let cpus = || -> Result<Cpumask, SourceError> {
        table.required("cpus", "CPUs, such as `cpus = \"2-3\"`", |item| item.mask(CPUS_MAX))
    };
    let time = |item: &TomlItem| item.read(TIME, |text| units::parse_duration_ns(text).ok());
    let lasts = || -> Result<u64, SourceError> {
        table.required("for", "a time such as `for = \"10ms\"`", time)
    };
    Ok(match what {
        ActionWord::Migrate => ActionKind::Migrate {
            from: node("from")?,
            to: node("to")?,
            times: table.count("times")?.unwrap_or(1),
        },
        ActionWord::Home => ActionKind::Home { to: node("to")? },
        ActionWord::MigrateOnFault => ActionKind::MigrateOnFault,
        ActionWord::Kill => ActionKind::Kill,
        ActionWord::Fork => ActionKind::Fork { for_ns: lasts()? },
        ActionWord::Freeze => ActionKind::Freeze { for_ns: lasts()? },
        ActionWord::CpusOff => ActionKind::CpusOff { cpus: cpus()? },
        ActionWord::CpusOn => ActionKind::CpusOn { cpus: cpus()? },
        ActionWord::MemoryOff => ActionKind::MemoryOff { node: node("node")? },
        ActionWord::MemoryOn => ActionKind::MemoryOn { node: node("node")? },
    })
}
