//! The nodes of the machine, for programs.

use std::path::Path;

use nodeward_linux::device_nodes::{self, Device, DeviceError};
use nodeward_linux::{nodes as linux_nodes, sysfs};
use nodeward_model::{NodeId, Nodemask, Topology};

use crate::{Error, Result};

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

/// Why a device names no node.
#[derive(Debug, thiserror::Error)]
pub enum DeviceFailure {
    /// There is no such device, or nobody knows where it is.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The machine could not be read, or this process may not use the node.
    #[error(transparent)]
    Machine(#[from] Error),
}

/// Returns the node with CPUs that is nearest to a device, read afresh. Cost: a few milliseconds.
///
/// # Errors
/// If there is no such device, the firmware does not tell its node, it consists of devices on
/// several nodes, or this process may not use the node.
///
/// ```
/// let found = "netdev:lo".parse().map_err(Into::into).and_then(|it| nodeward::near(&it));
/// let words = found.unwrap_err().to_string();
/// assert_eq!(words, "the firmware does not say on which node netdev:lo is; name the node");
/// ```
pub fn near(device: &Device) -> std::result::Result<NodeId, DeviceFailure> {
    let node = device_nodes::near(Path::new(ROOT), device, &topology()?)?;
    match nodes()?.contains(node) {
        true => Ok(node),
        false => Err(Error::UnknownNode { node }.into()),
    }
}

/// Returns the bytes of a base page.
pub fn page_bytes() -> usize {
    rustix::param::page_size()
}
