//! The distances between nodes in hwloc's XML.

use roxmltree::Node as Element;

use super::error::HwlocError;
use super::objects::{TopologyReader, id_of, invalid_value, optional};
use crate::NodeId;
use crate::mask::Id;
use crate::topology::Distances;

/// The bit in `kind` of a matrix that holds latencies.
const MEANS_LATENCY: u64 = 1 << 2;

/// Reads the matrix of latencies. Version 2 names the nodes of each matrix; in version 1 a matrix
/// covers all nodes in document order.
pub(super) fn read(reader: &TopologyReader<'_>) -> Result<Option<Distances>, HwlocError> {
    if reader.is_version_1 { read_version_1(reader) } else { read_version_2(reader) }
}

fn read_version_2(reader: &TopologyReader<'_>) -> Result<Option<Distances>, HwlocError> {
    for matrix in reader.root.children().filter(|e| e.has_tag_name("distances2")) {
        let means_latency = optional::<u64>(matrix, "kind")?.unwrap_or(0) & MEANS_LATENCY != 0;
        if matrix.attribute("type") == Some("NUMANode") && means_latency {
            let ids = numbers(matrix, "indexes", "node ids")?;
            let is_id = |id: &u32| *id < NodeId::LIMIT;
            if let Some(id) = ids.iter().find(|id| !is_id(id)) {
                return Err(invalid_value(
                    matrix,
                    "indexes",
                    &id.to_string(),
                    "node ids below 1024",
                ));
            }
            let values = numbers(matrix, "u64values", "distances")?;
            let ids: Vec<_> = ids.into_iter().map(NodeId).collect();
            return distance_matrix(matrix, &ids, &values).map(Some);
        }
    }
    Ok(None)
}

/// Returns the numbers in the text of all children with this name.
fn numbers(
    matrix: Element<'_, '_>,
    name: &'static str,
    wanted: &str,
) -> Result<Vec<u32>, HwlocError> {
    let children = matrix.children().filter(|e| e.has_tag_name(name));
    let words = children.flat_map(|e| e.text().unwrap_or("").split_whitespace());
    words.map(|word| word.parse().map_err(|_| invalid_value(matrix, name, word, wanted))).collect()
}

fn read_version_1(reader: &TopologyReader<'_>) -> Result<Option<Distances>, HwlocError> {
    let ids: Vec<NodeId> = reader.of_type("NUMANode").map(id_of).collect::<Result<_, _>>()?;
    let Some(machine) = reader.of_type("Machine").next() else { return Ok(None) };
    for matrix in machine.children().filter(|e| e.has_tag_name("distances")) {
        if optional::<usize>(matrix, "nbobjs")? == Some(ids.len()) {
            let base = optional(matrix, "latency_base")?.unwrap_or(1.0);
            let cells = matrix.children().filter(|e| e.has_tag_name("latency"));
            let values: Vec<u32> =
                cells.map(|cell| latency(cell, base)).collect::<Result<_, _>>()?;
            return distance_matrix(matrix, &ids, &values).map(Some);
        }
    }
    Ok(None)
}

fn latency(cell: Element<'_, '_>, base: f64) -> Result<u32, HwlocError> {
    let text = cell.attribute("value").unwrap_or("");
    let value = text.parse::<f64>().map_or(f64::NAN, |value| (value * base).round());
    // `value` is rounded and within the range, so the conversion is exact.
    (1.0..1e9)
        .contains(&value)
        .then_some(value as u32)
        .ok_or_else(|| invalid_value(cell, "latency", text, "a distance above zero"))
}

/// Builds a matrix from nodes in any order.
fn distance_matrix(
    matrix: Element<'_, '_>,
    ids: &[NodeId],
    values: &[u32],
) -> Result<Distances, HwlocError> {
    let count = ids.len();
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by_key(|&position| ids[position]);
    let sorted: Vec<_> = order.iter().map(|&position| ids[position]).collect();
    if values.len() != count * count || !sorted.is_sorted_by(|a, b| a < b) {
        let found = format!("{} distances for {count} nodes", values.len());
        return Err(invalid_value(
            matrix,
            "distances",
            &found,
            "one for each pair of different nodes",
        ));
    }
    Ok(Distances::from_rule(sorted, |from, to| values[order[from] * count + order[to]]))
}
