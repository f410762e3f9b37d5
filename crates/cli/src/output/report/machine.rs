//! The machine: its nodes and the distances between them.

use nodeward_model::NodeId;
use nodeward_model::topology::{Node, Topology};
use nodeward_model::units::format_bytes;

use super::blocks::{begin_section, cell, number, paragraph, table};
use super::markup::{Element, element};
use crate::results::observation::WatchReport;

/// Nodes whose distances are shown: a larger table is for `nodeward show`.
const DISTANCES_MAX: usize = 16;

/// Formats the section.
pub fn section(seen: &WatchReport) -> Option<Element> {
    let topology = &seen.topology;
    let cpus = match topology.cpus.len() {
        1 => "1 CPU".to_owned(),
        count => format!("{count} CPUs"),
    };
    let section = begin_section("The machine").child(paragraph(format!(
        "{cpus} on {} cores, pages of {}.",
        topology.cores.len(),
        format_bytes(topology.page_bytes)
    )));
    let columns = [("node", true), ("CPUs", false), ("memory", true), ("free at the begin", true)];
    let rows = topology.nodes.iter().map(|(id, node)| row(*id, node)).collect();
    Some(section.child(table(&columns, rows)).children(distances(topology)))
}

fn row(id: NodeId, node: &Node) -> Vec<Element> {
    let bytes = |bytes: Option<u64>| bytes.map_or_else(|| "not known".to_owned(), format_bytes);
    let cpus = if node.cpus.is_empty() { "none".to_owned() } else { node.cpus.to_string() };
    vec![number(id), cell(cpus), number(bytes(node.memory_bytes)), number(bytes(node.free_bytes))]
}

fn distances(topology: &Topology) -> Vec<Element> {
    let heading = element("h3").text("Distances");
    let Some(distances) = &topology.distances else {
        return vec![heading, paragraph("The machine does not report them.")];
    };
    if distances.nodes().len() > DISTANCES_MAX {
        let words = "There are too many nodes for a table here; nodeward show --topology has it.";
        return vec![heading, paragraph(words)];
    }
    let names: Vec<String> = distances.nodes().iter().map(|id| format!("to {id}")).collect();
    let columns = std::iter::once(("from", true));
    let columns: Vec<_> = columns.chain(names.iter().map(|name| (name.as_str(), true))).collect();
    let row = |(id, row): (NodeId, &[u32])| {
        let cells = row.iter().map(number);
        std::iter::once(number(id)).chain(cells).collect()
    };
    let rows = distances.rows().map(row).collect();
    let words = "As the firmware tells them; 10 is local, from the row to the column.";
    vec![heading, paragraph(words), table(&columns, rows)]
}
