//! Actions of a scenario in a few words.

use nodeward_scenario::{Action, ActionKind};

/// Describes an action in a few words.
pub fn describe_action(action: &Action) -> String {
    let name = &action.workload;
    match &action.kind {
        ActionKind::Migrate { from, to, times: 1 } => {
            format!("{name}: move from node {from} to node {to}")
        }
        ActionKind::Migrate { from, to, times } => {
            format!("{name}: move {times} times between nodes {from} and {to}")
        }
        ActionKind::MigrateOnFault => format!("{name}: pages move to who touches them next"),
        ActionKind::Home { to } => format!("{name}: home is node {to}"),
        ActionKind::Kill => format!("{name}: killed"),
        ActionKind::Fork { .. } => format!("{name}: forks"),
        ActionKind::Freeze { .. } => format!("{name}: frozen"),
        ActionKind::CpusOff { cpus } => format!("CPUs {cpus}: off"),
        ActionKind::CpusOn { cpus } => format!("CPUs {cpus}: on"),
        ActionKind::MemoryOff { node } => format!("memory of node {node}: off"),
        ActionKind::MemoryOn { node } => format!("memory of node {node}: on"),
    }
}
