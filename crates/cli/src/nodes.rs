//! FROM and TO of a move: node strings, checked against the machine.

use std::path::Path;

use anyhow::{Context, Result, bail};
use nodeward_linux::nodes;
use nodeward_model::nodestring::parse_nodestring;
use nodeward_model::{NodePairs, Nodemask, Topology};

/// Reads FROM and TO and pairs their nodes. Tells on stderr how they were paired if that is not
/// obvious.
pub fn pairs(from: &str, to: &str, topology: &Topology) -> Result<NodePairs> {
    let from = set("FROM", from, topology)?;
    let to = destinations(to, topology)?;
    let pairs = NodePairs::new(&from, &to);
    if from.len() != to.len() {
        eprintln!("nodeward: FROM and TO differ in length; moving {}", described(&pairs));
    }
    Ok(pairs)
}

/// Reads TO, and sends to it what is on any other node with memory.
pub fn pairs_from_elsewhere(to: &str, topology: &Topology) -> Result<NodePairs> {
    let to = destinations(to, topology)?;
    let from = topology.nodes_with_memory().without(&to);
    if from.is_empty() {
        bail!("no node but TO has memory, so everything is there; name fewer nodes");
    }
    Ok(NodePairs::new(&from, &to))
}

fn destinations(to: &str, topology: &Topology) -> Result<Nodemask> {
    let to = set("TO", to, topology)?;
    let with_memory = topology.nodes_with_memory();
    let bare = to.without(&with_memory);
    if !bare.is_empty() {
        bail!("TO names {bare}, which has no memory; nodes with memory are {with_memory}");
    }
    Ok(to)
}

/// Reads a node string that must name a node.
fn set(name: &str, text: &str, topology: &Topology) -> Result<Nodemask> {
    let context = nodes::context(Path::new("/"), topology)?;
    let set = parse_nodestring(text, &context).with_context(|| format!("{name} is '{text}'"))?;
    if set.is_empty() {
        bail!("FROM and TO must each name a node; nodes here are {}", context.existing);
    }
    Ok(set)
}

fn described(pairs: &NodePairs) -> String {
    let words: Vec<String> = pairs.iter().map(|(from, to)| format!("{from} to {to}")).collect();
    if words.is_empty() { "nothing".to_owned() } else { words.join(", ") }
}
