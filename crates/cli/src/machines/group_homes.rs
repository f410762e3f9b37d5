//! The homes of groups that settings make, checked against the machine.

use anyhow::{Result, bail};
use nodeward_model::{GroupSpec, Topology};

/// Checks that the nodes are here on which groups are to be.
///
/// # Errors
/// If one is not.
pub fn check(topology: &Topology, groups: &[GroupSpec]) -> Result<()> {
    let here = topology.node_ids();
    for GroupSpec { name, home, .. } in groups {
        let missing = home.named_nodes().map(|nodes| nodes.without(&here)).unwrap_or_default();
        if !missing.is_empty() {
            bail!("the home of group.{name} names node {missing}; the nodes here are {here}");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use nodeward_machine::Machine as _;
    use nodeward_machine::fake::FakeMachine;

    use super::*;

    /// Goal: a home on nodes that are not here is refused with its group; one that the balancer
    /// chooses needs none.
    #[test]
    fn homes_are_here() {
        let topology = FakeMachine::with_topology(true, "2n 1c 1t 1GiB").topology().unwrap();
        let told = |home: &str| {
            let group = GroupSpec {
                name: "kv".parse().unwrap(),
                home: home.parse().unwrap(),
                members: Vec::new(),
                memory: Vec::new(),
            };
            check(&topology, &[group]).err().map(|error| error.to_string())
        };
        assert_eq!([told("auto"), told("0-1"), told("spread:0-1")], [None, None, None]);
        let refused = "the home of group.kv names node 7; the nodes here are 0-1";
        assert_eq!(told("1,7").as_deref(), Some(refused));
    }
}
