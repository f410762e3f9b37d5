//! The machine by dense indices: CPUs, cores, complexes and nodes.

use std::collections::BTreeMap;

use nodeward_model::{CpuId, NodeId};
use nodeward_scenario::Machine;

/// The place of a CPU in the machine.
#[derive(Clone, Debug)]
pub struct CpuPlace {
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
pub struct Layout {
    /// CPUs in ascending order of their numbers. The position is the index used everywhere.
    pub cpus: Vec<CpuPlace>,
    /// The CPUs of each node, by index.
    pub cpus_of_node: Vec<Vec<usize>>,
    /// The number of complexes.
    pub complexes: usize,
    /// The nodes with memory, nearest first, for each node. A node is its own nearest.
    pub nearest: Vec<Vec<usize>>,
    /// The ids of the nodes, by index.
    pub node_ids: Vec<NodeId>,
}

impl Layout {
    /// Creates the layout of a machine.
    pub fn of(machine: &Machine) -> Self {
        let mut places: BTreeMap<CpuId, CpuPlace> = BTreeMap::new();
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
                    places.insert(id, CpuPlace { id, node, siblings, complex: complexes });
                }
            }
            complexes += usize::from(in_complex > 0);
        }
        let cpus: Vec<_> = places.into_values().collect();
        let of_node = |node| (0..cpus.len()).filter(|&cpu| cpus[cpu].node == node).collect();
        Self {
            cpus_of_node: (0..machine.nodes.len()).map(of_node).collect(),
            cpus,
            complexes,
            nearest: (0..machine.nodes.len()).map(|node| nearest(machine, node)).collect(),
            node_ids: machine.nodes.iter().map(|node| node.id).collect(),
        }
    }

    /// Returns the index of a CPU's node.
    pub fn node_of(&self, cpu: usize) -> usize {
        self.cpus[cpu].node
    }
}

fn nearest(machine: &Machine, node: usize) -> Vec<usize> {
    let mut nodes: Vec<_> =
        (0..machine.nodes.len()).filter(|&other| machine.nodes[other].memory_bytes > 0).collect();
    nodes.sort_by_key(|&other| (machine.distances[node][other], other));
    nodes
}
