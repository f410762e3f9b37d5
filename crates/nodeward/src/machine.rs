//! The nodes of the machine, for programs.

use std::path::Path;

use nodeward_linux::{nodes as linux_nodes, sysfs};
use nodeward_model::{Nodemask, Topology};

use crate::Result;

/// The root of /sys and /proc of the running kernel.
const ROOT: &str = "/";

/// Returns the nodes that have memory which this process may use (`cpuset.mems` of its cpuset),
/// read afresh. Cost: a few milliseconds.
///
/// # Errors
/// If /sys or /proc cannot be read.
///
/// ```
/// # fn main() -> nodeward::Result<()> {
/// let nodes = nodeward::nodes()?;
/// assert!(!nodes.is_empty(), "a process has memory somewhere");
/// println!("nodes {nodes}"); // for example: nodes 0-1
/// # Ok(())
/// # }
/// ```
pub fn nodes() -> Result<Nodemask> {
    let topology = topology()?;
    let allowed = linux_nodes::nodestring_context(Path::new(ROOT), &topology)?.allowed;
    let with_memory = topology.nodes.iter().filter(|(_, node)| node.has_memory());
    Ok(with_memory.map(|(&id, _)| id).filter(|&id| allowed.contains(id)).collect())
}

/// Returns the nodes, CPUs, caches and distances of the machine, read afresh. Cost: a few
/// milliseconds.
///
/// # Errors
/// If /sys cannot be read.
///
/// ```
/// # fn main() -> nodeward::Result<()> {
/// for (id, node) in &nodeward::topology()?.nodes {
///     println!("node {id}: CPUs {}", node.cpus); // for example: node 0: CPUs 0-3,8-11
/// }
/// # Ok(())
/// # }
/// ```
pub fn topology() -> Result<Topology> {
    Ok(sysfs::read_topology(Path::new(ROOT))?)
}
