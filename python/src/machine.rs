//! The machine, and how pages move here.

use std::collections::BTreeMap;

use nodeward::Topology;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::Failure;
use crate::options;
use crate::process_state;

/// Returns the fields of nodeward.Node of each node, in order.
#[pyfunction]
pub fn topology(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    let topology = py.detach(nodeward::topology).map_err(Failure::from)?;
    topology.nodes.keys().map(|&node| fields(py, &topology, node)).collect()
}

/// Returns the nodes that this process may use.
#[pyfunction]
pub fn nodes(py: Python<'_>) -> PyResult<Vec<u32>> {
    Ok(py.detach(options::nodes)?.iter().map(|node| node.0).collect())
}

/// Returns the node near a device.
#[pyfunction]
pub fn near(py: Python<'_>, device: &str) -> PyResult<u32> {
    let device = device.strip_prefix("near:").unwrap_or(device);
    Ok(py.detach(|| options::near(device))?.0)
}

/// Returns how the pager moves pages here, and why no faster method works.
#[pyfunction]
pub fn pager(py: Python<'_>) -> PyResult<(String, Option<String>)> {
    let pager = process_state::pager(py).map_err(Failure::from)?;
    Ok((pager.backend().name().to_owned(), pager.why_not_faster().map(str::to_owned)))
}

fn fields<'py>(
    py: Python<'py>,
    topology: &Topology,
    node: nodeward::NodeId,
) -> PyResult<Bound<'py, PyDict>> {
    let of_node = &topology.nodes[&node];
    let distance = |to: &nodeward::NodeId| {
        let known = topology.distances.as_ref().and_then(|table| table.get(node, *to))?;
        Some((to.0, known))
    };
    let distances: BTreeMap<u32, u32> = topology.nodes.keys().filter_map(distance).collect();
    let cpus: Vec<u32> = of_node.cpus.iter().map(|cpu| cpu.0).collect();
    let fields = PyDict::new(py);
    fields.set_item("id", node.0)?;
    fields.set_item("cpus", cpus)?;
    fields.set_item("memory", of_node.memory_bytes)?;
    fields.set_item("free", of_node.free_bytes)?;
    fields.set_item("distances", distances)?;
    Ok(fields)
}
