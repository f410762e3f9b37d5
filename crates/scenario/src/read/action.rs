//! What is done while programs run.

use nodeward_model::NodeId;

use super::{Item, TIME_OR_ZERO};
use crate::error::Fault;
use crate::tree::Table;
use crate::{Action, ActionKind};

pub(crate) const KEYS: &[&str] = &["at", "workload", "do"];

/// What can be done, with the keys that it has.
#[derive(Clone, Copy)]
enum Do {
    Migrate,
    MigrateOnFault,
    Home,
    Kill,
}

const WORDS: &[(&str, Do)] = &[
    ("migrate", Do::Migrate),
    ("migrate-on-fault", Do::MigrateOnFault),
    ("home", Do::Home),
    ("kill", Do::Kill),
];

pub(super) fn action(table: &Table) -> Result<Action, Fault> {
    let names = "`do = \"migrate\"`, \"migrate-on-fault\", \"home\" or \"kill\"";
    let what = table.need("do", names, |item| item.word(WORDS))?;
    let keys: &[&str] = match what {
        Do::Migrate => &["from", "to", "times"],
        Do::Home => &["to"],
        Do::MigrateOnFault | Do::Kill => &[],
    };
    table.only(&[KEYS, keys])?;
    let time = |item: &Item| item.read(TIME_OR_ZERO, super::time_or_zero);
    Ok(Action {
        at_ns: table.need("at", "a time such as `at = \"1s\"`", time)?,
        workload: table.need("workload", "a workload's name", Item::as_text)?.to_owned(),
        kind: kind(what, table)?,
    })
}

fn kind(what: Do, table: &Table) -> Result<ActionKind, Fault> {
    let node = |key: &str| -> Result<NodeId, Fault> {
        table.need(key, &format!("a node, such as `{key} = 1`"), Item::node)
    };
    Ok(match what {
        Do::Migrate => ActionKind::Migrate {
            from: node("from")?,
            to: node("to")?,
            times: table.count("times")?.unwrap_or(1),
        },
        Do::Home => ActionKind::Home { to: node("to")? },
        Do::MigrateOnFault => ActionKind::MigrateOnFault,
        Do::Kill => ActionKind::Kill,
    })
}
