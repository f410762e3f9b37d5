//! Chooses the home of a program that is about to start, as a balancer would.

use std::path::Path;

use anyhow::{Context as _, Result};
use nodeward_balancer::{Launch, home_of_launch};
use nodeward_linux::{Linux, own_process};
use nodeward_model::{Cpumask, NodeId, Pid, Topology};

use crate::machines::kept_empty;

/// Returns the home node of a process with one busy thread, none of those that the settings keep
/// empty. Takes a fiftieth of a second.
///
/// # Errors
/// If the settings are invalid, processes cannot be watched, or no node has CPUs and memory for us.
pub fn pick_home(
    machine: &Linux,
    topology: &Topology,
    usable: &Cpumask,
    flag: Option<&Path>,
) -> Result<NodeId> {
    let keep_empty = &kept_empty::by_settings(topology, flag)?;
    let launch = Launch {
        pid: Pid::new(std::process::id())?,
        node: topology.node_of_cpu(own_process::current_cpu()),
        usable,
        keep_empty,
    };
    home_of_launch(machine, &launch)?.with_context(|| {
        let none = kept_empty::no_node_outside(keep_empty);
        format!("{none} has CPUs and memory that this process may use; name one by --home")
    })
}
