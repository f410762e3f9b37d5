//! The hardware of a machine: nodes, CPUs, cores, caches and the distances between nodes.
//!
//! A topology is a snapshot. Node ids may have holes, nodes may lack memory or CPUs, and values
//! that a kernel may not report are `Option`s.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

use crate::{Accessor, CpuId, Cpumask, NodeId, Nodemask};

pub use distances::{DistanceError, Distances};

mod distances;

/// The hardware that matters for the placement of memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Topology {
    /// Bytes of a base page.
    pub page_bytes: u64,
    /// The CPUs that are online.
    pub cpus: Cpumask,
    /// The nodes that are online, by id; in JSON a list in order of the ids.
    #[serde(serialize_with = "nodes_as_list")]
    pub nodes: BTreeMap<NodeId, Node>,
    /// The physical cores, in order of their first CPU.
    pub cores: Vec<Core>,
    /// The caches, in order of level, kind and first CPU.
    pub caches: Vec<Cache>,
    /// The distance between each pair of nodes; `None` where the machine does not report it.
    pub distances: Option<Distances>,
}

/// One memory node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Node {
    /// The CPUs for which this node is the local one; empty for a memory-only node.
    pub cpus: Cpumask,
    /// Bytes of the node's memory; zero if it has none.
    pub memory_bytes: Option<u64>,
    /// Bytes of free memory.
    pub free_bytes: Option<u64>,
    /// The pools of huge pages, in order of the page size.
    pub huge_pools: Vec<HugePool>,
}

impl Node {
    /// Returns true if the node can hold pages. A node of unknown size counts as one that can.
    pub fn has_memory(&self) -> bool {
        self.memory_bytes != Some(0)
    }
}

/// The pool of huge pages of one size on one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct HugePool {
    /// Bytes of one huge page.
    pub page_bytes: u64,
    /// Huge pages in the pool.
    pub total_pages: u64,
    /// Free huge pages in the pool.
    pub free_pages: Option<u64>,
}

/// One physical core.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Core {
    /// Its online hardware threads.
    pub cpus: Cpumask,
    /// Its socket.
    pub package: Option<u32>,
    /// The node that is local to it.
    pub node: Option<NodeId>,
}

/// The contents of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CacheKind {
    /// Data only.
    Data,
    /// Instructions only.
    Instruction,
    /// Data and instructions.
    Unified,
}

impl CacheKind {
    /// Returns the letter after the level, as in `L1d`; empty for a unified cache.
    pub fn suffix(self) -> &'static str {
        match self {
            Self::Data => "d",
            Self::Instruction => "i",
            Self::Unified => "",
        }
    }
}

/// One cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cache {
    /// The level; 1 is nearest to the core.
    pub level: u32,
    /// The kind of its contents.
    pub kind: CacheKind,
    /// Its size in bytes.
    pub size_bytes: Option<u64>,
    /// The CPUs that share it.
    pub cpus: Cpumask,
}

impl Topology {
    /// Returns the ids of all nodes.
    pub fn node_ids(&self) -> Nodemask {
        self.nodes.keys().copied().collect()
    }

    /// Returns the nodes that can hold pages.
    pub fn nodes_with_memory(&self) -> Nodemask {
        self.nodes.iter().filter(|(_, node)| node.has_memory()).map(|(&id, _)| id).collect()
    }

    /// Returns the nodes that have CPUs.
    pub fn nodes_with_cpus(&self) -> Nodemask {
        self.nodes.iter().filter(|(_, node)| !node.cpus.is_empty()).map(|(&id, _)| id).collect()
    }

    /// Returns the node that is local to a CPU.
    pub fn node_of_cpu(&self, cpu: CpuId) -> Option<NodeId> {
        self.nodes.iter().find(|(_, node)| node.cpus.contains(cpu)).map(|(&id, _)| id)
    }

    /// Returns the node of an accessor, if it is known.
    pub fn node_of_accessor(&self, by: Accessor) -> Option<NodeId> {
        by.node(|cpu| self.node_of_cpu(cpu))
    }

    /// Returns the cores of a node, each as the set of its hardware threads.
    pub fn cores_of_node(&self, node: NodeId) -> Vec<Cpumask> {
        self.cores.iter().filter(|c| c.node == Some(node)).map(|c| c.cpus.clone()).collect()
    }

    /// Returns the other nodes in ascending order of their distance from `node`; those of equal
    /// distance, and at the end those of unknown distance, in order of the ids.
    pub fn nearest_nodes(&self, node: NodeId) -> Vec<NodeId> {
        let mut others: Vec<_> = self.nodes.keys().copied().filter(|&id| id != node).collect();
        others.sort_by_key(|&id| (self.distance(node, id).unwrap_or(u32::MAX), id));
        others
    }

    /// Returns the distance from `from` to `to`; 10 is local.
    pub fn distance(&self, from: NodeId, to: NodeId) -> Option<u32> {
        self.distances.as_ref()?.get(from, to)
    }

    /// Returns the last cache between a CPU and memory. Instruction caches do not count.
    pub fn last_level_cache_of(&self, cpu: CpuId) -> Option<&Cache> {
        let holds_data = |cache: &&Cache| cache.kind != CacheKind::Instruction;
        self.caches
            .iter()
            .filter(holds_data)
            .filter(|c| c.cpus.contains(cpu))
            .max_by_key(|c| c.level)
    }

    /// Sorts cores and caches as the fields promise, so that equal machines from different sources
    /// compare equal.
    pub fn sort(&mut self) {
        self.cores.sort_by_key(|core| core.cpus.first());
        self.caches.sort_by_key(|cache| (cache.level, cache.kind, cache.cpus.first()));
    }
}

#[derive(Serialize)]
struct ListedNode<'a> {
    id: NodeId,
    cpus: &'a Cpumask,
    memory_bytes: Option<u64>,
    free_bytes: Option<u64>,
    huge_pools: &'a [HugePool],
}

fn nodes_as_list<S: Serializer>(
    nodes: &BTreeMap<NodeId, Node>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(nodes.iter().map(|(&id, node)| ListedNode {
        id,
        cpus: &node.cpus,
        memory_bytes: node.memory_bytes,
        free_bytes: node.free_bytes,
        huge_pools: &node.huge_pools,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Synthetic;

    fn machine(text: &str) -> Topology {
        text.parse::<Synthetic>().unwrap().topology()
    }

    #[test]
    fn cpus_belong_to_their_node_and_to_no_other() {
        // 2 nodes x 2 cores x 2 threads: CPUs 0-3 on node 0, 4-7 on node 5.
        let machine = machine("2n@0,5 2c 2t 1GiB");
        assert_eq!(machine.node_of_cpu(CpuId(3)), Some(NodeId(0)));
        assert_eq!(machine.node_of_cpu(CpuId(4)), Some(NodeId(5)));
        assert_eq!(machine.node_of_cpu(CpuId(8)), None);
        assert_eq!(machine.node_of_accessor(Accessor::Cpu(CpuId(4))), Some(NodeId(5)));
        assert_eq!(machine.node_of_accessor(Accessor::Node(NodeId(5))), Some(NodeId(5)));
        assert_eq!(machine.node_of_accessor(Accessor::Unknown), None);
        let cores = machine.cores_of_node(NodeId(5));
        assert_eq!(cores, ["4-5".parse().unwrap(), "6-7".parse().unwrap()]);
    }

    #[test]
    fn nearest_is_judged_from_the_node_that_asks() {
        let machine = machine("3n 1c 1GiB dist:10,30,20;20,10,30;40,15,10");
        assert_eq!(machine.nearest_nodes(NodeId(0)), [NodeId(2), NodeId(1)]); // 20 before 30
        assert_eq!(machine.nearest_nodes(NodeId(2)), [NodeId(1), NodeId(0)]); // 15 before 40
        assert_eq!(machine.distance(NodeId(0), NodeId(7)), None);
    }

    #[test]
    fn nodes_without_memory_or_cpus_are_told_apart() {
        let machine = machine("1n 2c 1GiB + 1n 2c + 1n 8GiB");
        assert_eq!(machine.nodes_with_memory(), "0,2".parse().unwrap());
        assert_eq!(machine.nodes_with_cpus(), "0-1".parse().unwrap());
    }

    #[test]
    fn the_last_level_is_the_highest_that_holds_data() {
        let machine = machine("1n 2c 2t 1GiB L1d:32KiB L1i:64KiB L3:8MiB");
        let cache = machine.last_level_cache_of(CpuId(3)).unwrap();
        assert_eq!((cache.level, cache.size_bytes), (3, Some(8 << 20)));
        assert_eq!(cache.cpus, "0-3".parse().unwrap());
    }
}
