//! FROM and TO of a move: node strings, checked against the machine.

use std::path::Path;

use anyhow::{Context, Result, bail};
use nodeward_linux::nodes;
use nodeward_model::nodestring::parse_nodestring;
use nodeward_model::{NodePairs, Topology};

/// Reads FROM and TO and pairs their nodes. Tells on stderr how they were paired if that is not
/// obvious.
pub fn pairs(from: &str, to: &str, topology: &Topology) -> Result<NodePairs> {
    let context = nodes::context(Path::new("/"), topology)?;
    let from = parse_nodestring(from, &context).with_context(|| format!("FROM is '{from}'"))?;
    let to = parse_nodestring(to, &context).with_context(|| format!("TO is '{to}'"))?;
    if from.is_empty() || to.is_empty() {
        bail!("FROM and TO must each name a node; nodes here are {}", context.existing);
    }
    let with_memory = topology.nodes_with_memory();
    let bare = to.without(&with_memory);
    if !bare.is_empty() {
        bail!("TO names {bare}, which has no memory; nodes with memory are {with_memory}");
    }
    let pairs = NodePairs::new(&from, &to);
    if from.len() != to.len() {
        eprintln!("nodeward: FROM and TO differ in length; moving {}", described(&pairs));
    }
    Ok(pairs)
}

fn described(pairs: &NodePairs) -> String {
    let words: Vec<String> = pairs.iter().map(|(from, to)| format!("{from} to {to}")).collect();
    if words.is_empty() { "nothing".to_owned() } else { words.join(", ") }
}
