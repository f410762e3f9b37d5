//! The machine by dense indices: CPUs, cores, complexes and nodes.

use std::collections::BTreeMap;

use nodeward_model::{CpuId, NodeId};
use nodeward_scenario::MachineSpec;

/// The place of a CPU in the machine.
#[derive(Clone, Debug)]
pub struct CpuLocation {
    /// Its number on the machine.
    pub id: CpuId,
    /// The index of its node.
    pub node: usize,
    /// The other CPUs of its core, by index.
    pub siblings: Vec<usize>,
    /// The index of its complex, counted over all nodes.
    pub complex: usize,
}

/// The machine by dense indices.
#[derive(Clone, Debug)]
pub struct MachineLayout {
    /// CPUs in ascending order of their numbers. The position is the index used everywhere.
    pub cpus: Vec<CpuLocation>,
    /// The CPUs of each node, by index.
    pub cpus_of_node: Vec<Vec<usize>>,
    /// The number of complexes.
    pub complex_count: usize,
    /// The nodes with memory, nearest first, for each node. A node is its own nearest.
    pub memory_nodes_by_distance: Vec<Vec<usize>>,
    /// The ids of the nodes, by index.
    pub node_ids: Vec<NodeId>,
}

impl MachineLayout {
    /// Creates the layout of a machine.
    pub fn of(machine: &MachineSpec) -> Self {
        let mut places: BTreeMap<CpuId, CpuLocation> = BTreeMap::new();
        let index: BTreeMap<CpuId, usize> = machine.cpus().iter().zip(0..).collect();
        let mut complexes = 0;
        for node in 0..machine.nodes.len() {
            let share = match machine.params.complex_cpus as usize {
                0 => usize::MAX,
                cpus => cpus,
            };
            let mut in_complex = 0;
            for core in machine.cores(node) {
                if in_complex + core.len() > share && in_complex > 0 {
                    complexes += 1;
                    in_complex = 0;
                }
                in_complex += core.len();
                for &id in &core {
                    let others = core.iter().filter(|&&other| other != id);
                    let siblings = others.map(|other| index[other]).collect();
                    places.insert(id, CpuLocation { id, node, siblings, complex: complexes });
                }
            }
            complexes += usize::from(in_complex > 0);
        }
        let cpus: Vec<_> = places.into_values().collect();
        let of_node = |node| (0..cpus.len()).filter(|&cpu| cpus[cpu].node == node).collect();
        Self {
            cpus_of_node: (0..machine.nodes.len()).map(of_node).collect(),
            cpus,
            complex_count: complexes,
            memory_nodes_by_distance: (0..machine.nodes.len())
                .map(|node| memory_nodes_by_distance(machine, node))
                .collect(),
            node_ids: machine.nodes.iter().map(|node| node.id).collect(),
        }
    }

    /// Returns the index of a CPU's node.
    pub fn node_of(&self, cpu: usize) -> usize {
        self.cpus[cpu].node
    }
}

fn memory_nodes_by_distance(machine: &MachineSpec, node: usize) -> Vec<usize> {
    let mut nodes: Vec<_> =
        (0..machine.nodes.len()).filter(|&other| machine.nodes[other].memory_bytes > 0).collect();
    nodes.sort_by_key(|&other| (machine.distances[node][other], other));
    nodes
}
