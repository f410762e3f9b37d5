//! FROM and TO of a move, and other nodes that pages go to, checked against the machine.

use anyhow::{Result, bail};
use nodeward_model::{NodeId, NodePairs, Nodemask, Topology};

use super::NodeNames;

/// Parses FROM and TO and pairs their nodes, in the order in which they are written. Reports the
/// pairs on stderr if they are not obvious.
pub fn parse_pairs(
    from: &str,
    to: &str,
    topology: &Topology,
    names: &NodeNames<'_>,
) -> Result<NodePairs> {
    let from = names.parse("FROM", from)?;
    let to = parse_destinations("TO", to, topology, names)?;
    let pairs = NodePairs::from_lists(&from, &to);
    if from.len() != to.len() {
        if pairs.is_empty() {
            bail!(moves_nothing_message(&from, &to));
        }
        say!(
            "nodeward: FROM and TO have {} and {} nodes; moving {}",
            from.len(),
            to.len(),
            described(&pairs)
        );
    }
    Ok(pairs)
}

/// Parses a TO without FROM, and pairs it with all other nodes with memory.
pub fn parse_pairs_from_all_others(
    to: &str,
    topology: &Topology,
    names: &NodeNames<'_>,
) -> Result<NodePairs> {
    let to = parse_destinations("TO", to, topology, names)?;
    let from = topology.nodes_with_memory().without(&to.iter().copied().collect());
    if from.is_empty() {
        bail!("no node but TO has memory, so there is nothing to move");
    }
    Ok(NodePairs::from_lists(&from.iter().collect::<Vec<_>>(), &to))
}

/// Parses the nodes of an evacuation: those to empty, and those that take the memory if they are
/// named.
pub fn parse_evacuation(
    nodes: &str,
    to: Option<&str>,
    topology: &Topology,
    names: &NodeNames<'_>,
) -> Result<(Nodemask, Option<Nodemask>)> {
    let from: Nodemask = names.parse("NODES", nodes)?.into_iter().collect();
    let to = to.map(|to| parse_destinations("TO", to, topology, names)).transpose()?;
    let to = to.map(|to| to.into_iter().collect::<Nodemask>());
    let both = to.iter().map(|to| to.and(&from)).find(|both| !both.is_empty());
    if let Some(both) = both {
        bail!("node {both} cannot be emptied and take memory; leave it out of NODES or of TO");
    }
    if to.is_none() && topology.nodes_with_memory().without(&from).is_empty() {
        match topology.nodes_with_memory().len() {
            1 => bail!("node {from} alone has memory here, so nothing can go elsewhere"),
            _ => bail!(
                "no node but {from} has memory, so nothing can go elsewhere; name fewer nodes"
            ),
        }
    }
    Ok((from, to))
}

/// Parses nodes that pages go to, which must have memory; `name` is what the usage calls them.
pub fn parse_destinations(
    name: &str,
    text: &str,
    topology: &Topology,
    names: &NodeNames<'_>,
) -> Result<Vec<NodeId>> {
    let to = names.parse(name, text)?;
    let with_memory = topology.nodes_with_memory();
    let bare: Nodemask = to.iter().copied().filter(|node| !with_memory.contains(*node)).collect();
    if !bare.is_empty() {
        bail!("{name} names {bare}, which has no memory; nodes with memory are {with_memory}");
    }
    Ok(to)
}

fn described(pairs: &NodePairs) -> String {
    let words: Vec<String> = pairs.iter().map(|(from, to)| format!("{from} to {to}")).collect();
    words.join(", ")
}

/// Explains the error of a FROM that is a part of TO, with what may have been meant.
fn moves_nothing_message(from: &[NodeId], to: &[NodeId]) -> String {
    let mask = |nodes: &[NodeId]| nodes.iter().copied().collect::<Nodemask>();
    let (from, to) = (mask(from), mask(to));
    let others = to.without(&from);
    format!(
        "'{from} {to}' moves nothing, because what is on a node of TO stays there; give '{from} \
         {others}' to move to {others}, or let nodeward balance find a home (to spread pages over \
         {to}, use nodeward spread PID {to})"
    )
}
