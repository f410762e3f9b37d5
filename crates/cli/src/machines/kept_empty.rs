//! Checks the nodes that are to be kept empty against the machine.

use anyhow::{Result, bail};
use nodeward_model::{Nodemask, Topology};

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
