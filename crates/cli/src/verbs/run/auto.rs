//! Chooses the home of a program that is about to start, as a balancer would.

use anyhow::{Context as _, Result};
use nodeward_balancer::{Launch, home_of_launch};
use nodeward_linux::{Linux, own_process};
use nodeward_model::{Cpumask, NodeId, Pid, Topology};

/// Returns the home node of a process with one busy thread. Takes a fiftieth of a second.
///
/// # Errors
/// If processes cannot be watched, or no node has CPUs and memory for us.
pub fn pick_home(machine: &Linux, topology: &Topology, usable: &Cpumask) -> Result<NodeId> {
    let launch = Launch {
        pid: Pid::new(std::process::id())?,
        node: topology.node_of_cpu(own_process::current_cpu()),
        usable,
    };
    home_of_launch(machine, &launch)?
        .context("no node has CPUs and memory that this process may use; name one by --home")
}
