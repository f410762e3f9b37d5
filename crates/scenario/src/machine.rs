//! The hardware: nodes, links, and costs.

use nodeward_model::{CpuId, Cpumask, NodeId};

use crate::Params;

/// The distance of a node from itself, as firmware tables have it.
pub const LOCAL_DISTANCE: u32 = 10;
/// The distance between two nodes when a scenario has no table.
pub(crate) const DEFAULT_REMOTE_DISTANCE: u32 = 20;

/// A machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineSpec {
    /// The nodes, by ascending id; never empty.
    pub nodes: Vec<NodeSpec>,
    /// `distances[i][j]`: the distance from a CPU of `nodes[i]` to memory of `nodes[j]`; 10 on the
    /// diagonal.
    pub distances: Vec<Vec<u32>>,
    /// Links that differ from distances and parameters.
    pub links: Vec<LinkSpec>,
    /// Costs by name.
    pub params: Params,
}

/// One node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSpec {
    /// Its id; ids may have holes.
    pub id: NodeId,
    /// Its CPUs; none for a node of memory only.
    pub cpus: Cpumask,
    /// Hardware threads per core, 1 or more. The n-th threads of the node's cores are numbered
    /// consecutively, as in Linux: with 2 cores of 2 threads, CPUs 0 and 2 are one core.
    pub threads_per_core: u32,
    /// Its memory in bytes; zero for a node of CPUs only.
    pub memory_bytes: u64,
    /// Latency of a miss by a CPU of this node on an idle machine; `None`: the parameter `latency`.
    pub latency_ns: Option<u64>,
    /// Bandwidth of its memory; `None`: the parameter `bandwidth`.
    pub bandwidth_bytes_per_s: Option<u64>,
}

/// The path from the CPUs of one node to the memory of another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkSpec {
    /// The node of the CPUs.
    pub from: NodeId,
    /// The node of the memory.
    pub to: NodeId,
    /// Latency of a miss on an idle machine; `None`: the local latency times the distance.
    pub latency_ns: Option<u64>,
    /// Bandwidth in this direction; `None`: the parameter `link-bandwidth`.
    pub bandwidth_bytes_per_s: Option<u64>,
}

impl MachineSpec {
    /// Returns the CPUs of all nodes.
    pub fn cpus(&self) -> Cpumask {
        self.nodes.iter().flat_map(|node| node.cpus.iter()).collect()
    }

    /// Returns the memory of all nodes in bytes.
    pub fn memory_bytes(&self) -> u64 {
        self.nodes.iter().map(|node| node.memory_bytes).sum()
    }

    /// Returns the position of a node in [`MachineSpec::nodes`].
    pub fn index_of(&self, id: NodeId) -> Option<usize> {
        self.nodes.iter().position(|node| node.id == id)
    }

    /// Returns the hardware threads of each core of a node, by the node's index.
    pub fn cores(&self, node: usize) -> Vec<Vec<CpuId>> {
        let node = &self.nodes[node];
        let cpus: Vec<_> = node.cpus.iter().collect();
        let cores = cpus.len().div_ceil(node.threads_per_core as usize);
        (0..cores).map(|core| cpus[core..].iter().step_by(cores).copied().collect()).collect()
    }

    /// Returns the latency of a miss from a CPU of node `from` to memory of node `to`, by index, on
    /// an idle machine.
    pub fn latency_ns(&self, from: usize, to: usize) -> u64 {
        let local = |node: usize| self.nodes[node].latency_ns.unwrap_or(self.params.latency_ns);
        if from == to {
            return local(to);
        }
        let told = self.link(from, to).and_then(|link| link.latency_ns);
        let distance = u64::from(self.distances[from][to]);
        told.unwrap_or_else(|| local(to) * distance / u64::from(LOCAL_DISTANCE))
    }

    /// Returns the bandwidth of a node's memory, in bytes per second.
    pub fn bandwidth_bytes_per_s(&self, node: usize) -> u64 {
        self.nodes[node].bandwidth_bytes_per_s.unwrap_or(self.params.bandwidth_bytes_per_s)
    }

    /// Returns the bandwidth from one node's CPUs to another one's memory, in bytes per second.
    pub fn link_bytes_per_s(&self, from: usize, to: usize) -> u64 {
        let told = self.link(from, to).and_then(|link| link.bandwidth_bytes_per_s);
        told.unwrap_or(self.params.link_bandwidth_bytes_per_s)
    }

    fn link(&self, from: usize, to: usize) -> Option<&LinkSpec> {
        let (from, to) = (self.nodes[from].id, self.nodes[to].id);
        self.links.iter().find(|link| (link.from, link.to) == (from, to))
    }
}
