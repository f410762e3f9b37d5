//! The nodes that are to be kept empty, checked against the machine.

use std::path::Path;

use anyhow::{Result, bail};
use nodeward_model::{Nodemask, Topology};

use crate::settings::SettingsPaths;

/// Returns the nodes that the settings keep empty; `flag` is the file of `--config`.
///
/// # Errors
/// If the settings cannot be read, or by [`check`].
pub fn by_settings(topology: &Topology, flag: Option<&Path>) -> Result<Nodemask> {
    let kept = SettingsPaths::from_environment(flag).read_layer()?.balance.kept_empty();
    check(topology, &kept)?;
    Ok(kept)
}

/// Returns the subject of an error: no node, or none but those that are kept empty.
pub fn no_node_outside(kept: &Nodemask) -> String {
    match kept.is_empty() {
        true => "no node".to_owned(),
        false => format!("no node outside {kept} (balance.keep-empty)"),
    }
}

/// Checks that the nodes are here, and that threads and memory can be on others.
///
/// # Errors
/// If they are not, or cannot.
pub fn check(topology: &Topology, kept: &Nodemask) -> Result<()> {
    let unknown = kept.without(&topology.node_ids());
    if !unknown.is_empty() {
        let here = topology.node_ids();
        bail!("balance.keep-empty names node {unknown}; the nodes here are {here}");
    }
    let with_cpus = topology.nodes_with_cpus();
    if !kept.is_empty() && with_cpus.without(kept).is_empty() {
        bail!("balance.keep-empty leaves no node with CPUs ({with_cpus}); name fewer nodes");
    }
    let with_memory = topology.nodes_with_memory();
    if !kept.is_empty() && with_memory.without(kept).is_empty() {
        bail!("balance.keep-empty leaves no node with memory ({with_memory}); name fewer nodes");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use nodeward_machine::Machine as _;
    use nodeward_machine::fake::FakeMachine;

    use super::*;

    /// Goal: nodes that are not here, and all that have CPUs or memory, are refused.
    #[test]
    fn something_is_left() {
        let topology = FakeMachine::with_topology(true, "3n 1c 1t 1GiB").topology().unwrap();
        let told = |nodes: &str| {
            let refused = check(&topology, &nodes.parse().unwrap()).err();
            refused.map(|error| error.to_string())
        };
        assert_eq!((told(""), told("1"), told("0,2")), (None, None, None));
        let unknown = "balance.keep-empty names node 3-4; the nodes here are 0-2";
        assert_eq!(told("1,3-4").as_deref(), Some(unknown));
        let all = "balance.keep-empty leaves no node with CPUs (0-2); name fewer nodes";
        assert_eq!(told("0-2").as_deref(), Some(all));
    }
}
