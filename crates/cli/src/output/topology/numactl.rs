//! The lines of `numactl -H`, as numactl 2.0.16 prints them.

use std::fmt::Write;

use nodeward_model::topology::{Distances, Node, Topology};
use nodeward_model::{Cpumask, NodeId};

/// Bytes in what numactl calls MB.
const MB: u64 = 1 << 20;

pub(super) fn hardware(topology: &Topology) -> String {
    let ids = topology.node_ids();
    let mut text = format!("available: {} nodes ({ids})\n", ids.len());
    for (&id, node) in &topology.nodes {
        text += &node_lines(id, node);
    }
    text + &topology
        .distances
        .as_ref()
        .map_or_else(|| "No distance information available.\n".to_owned(), matrix)
}

fn node_lines(id: NodeId, node: &Node) -> String {
    let (cpus, size, free) = (numbers(&node.cpus), mb(node.memory_bytes), mb(node.free_bytes));
    format!("node {id} cpus:{cpus}\nnode {id} size: {size}\nnode {id} free: {free}\n")
}

fn numbers(cpus: &Cpumask) -> String {
    cpus.iter().fold(String::new(), |text, cpu| format!("{text} {cpu}"))
}

fn mb(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "<not available>".to_owned(), |bytes| format!("{} MB", bytes / MB))
}

fn matrix(distances: &Distances) -> String {
    let mut text = "node distances:\nnode ".to_owned();
    for id in distances.nodes() {
        // Writing into a String cannot fail.
        let _ = write!(text, "{:>3} ", id.0);
    }
    for (id, row) in distances.rows() {
        let _ = write!(text, "\n{:>3}: ", id.0);
        for distance in row {
            let _ = write!(text, "{distance:>3} ");
        }
    }
    text + "\n"
}
