//! Reads the machine's topology from sysfs, below any root so that captured trees can be read too.
//!
//! Speed is a promise here (a thousand CPUs in a few hundredths of a second), so nothing is read
//! twice. Files that hardware threads or neighbouring CPUs share are read for one of them only,
//! each file costs one open and one read, and two threads read machines with many CPUs.

mod allocations;
mod capture;
mod cpus;
mod files;
pub(crate) mod huge_pages;
mod node_memory;
mod nodes;
mod synthetic_capture;

use std::path::Path;

use nodeward_machine::Result;
use nodeward_model::{Cpumask, NodeId, Topology};

pub use allocations::{NodeAllocations, node_allocations};
pub use capture::{CaptureError, capture, unpack};
pub use node_memory::{NodeMemoryUse, node_memory};
pub use synthetic_capture::as_capture;

use files::{Dir, ReadBuffer};

/// The kernel's directory of CPUs, below the root.
const CPU_DIR: &str = "sys/devices/system/cpu";
/// The kernel's directory of memory nodes, below the root.
const NODE_DIR: &str = "sys/devices/system/node";

/// Reads the topology from the `sys` directory (and for kernels without NUMA from `proc/meminfo`)
/// below a root, which is `/` on a live machine.
pub fn read_topology(root: &Path) -> Result<Topology> {
    let cpu_dir = Dir::open(root.join(CPU_DIR))?;
    let mut buffer = ReadBuffer::default();
    let cpus = online(&cpu_dir, &mut buffer)?;
    let (nodes, distances) = match Dir::open_if_present(root.join(NODE_DIR))? {
        Some(node_dir) => nodes::read(&node_dir, &mut buffer)?,
        None => (nodes::single_node(root, &cpus, &mut buffer)?, None),
    };
    let (cores, caches) = cpus::read(&cpu_dir, &cpus, &nodes)?;
    let page_bytes = rustix::param::page_size() as u64;
    let mut topology = Topology { page_bytes, cpus, nodes, cores, caches, distances };
    topology.sort();
    Ok(topology)
}

/// Returns the online CPUs; an administrator may take one offline at any time. Cost: one file.
///
/// # Errors
/// If the kernel's list cannot be read or parsed.
pub fn online_cpus(root: &Path) -> Result<Cpumask> {
    online(&Dir::open(root.join(CPU_DIR))?, &mut ReadBuffer::default())
}

fn online(cpu_dir: &Dir, buffer: &mut ReadBuffer) -> Result<Cpumask> {
    cpu_dir.require("online", buffer)?.list()
}

/// Returns the bytes that are free on a node.
///
/// # Errors
/// If the node has no file with that number.
pub fn free_bytes(root: &Path, node: NodeId) -> Result<u64> {
    let dir = Dir::open(root.join(NODE_DIR))?;
    nodes::free_bytes(&dir, node, &mut ReadBuffer::default())
}
