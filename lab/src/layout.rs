//! Places a scenario's CPUs in a machine so that Linux gives the nodes the ids of the scenario.
//!
//! Linux numbers nodes in the order in which the firmware's table names them, CPUs before memory. A
//! node without CPUs, or a hole in the ids, would shift later nodes down. Each such node therefore
//! gets *empty* CPU slots: places that the table names, in which no CPU is plugged.

use anyhow::{Result, ensure};
use nodeward_model::CpuId;

use crate::scenario::{LabMachine, len};

/// The slots for CPUs, in the order in which the firmware lists them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuLayout {
    /// Every slot; slot `i` is core `i % cores_per_socket` of socket `i / cores_per_socket`.
    pub slots: Vec<CpuSlot>,
    /// Number of slots per socket.
    pub cores_per_socket: u32,
}

/// A place for one CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuSlot {
    /// The node of the slot, which may be a hole.
    pub node: u32,
    /// Whether a CPU is plugged in.
    pub filled: bool,
}

impl CpuLayout {
    /// Lays out a scenario. Fails where no order of slots gives the nodes their ids.
    pub fn of(scenario: &LabMachine) -> Result<Self> {
        let cores_per_socket = cores_per_socket(scenario);
        let mut slots = Vec::new();
        let mut next_node = 0; // every node below it has slots
        for cpu in (0..scenario.cpu_count()).map(CpuId) {
            let node = node_of(scenario, cpu);
            push_empty_slots(&mut slots, next_node..node, cores_per_socket);
            next_node = next_node.max(node + 1);
            slots.push(CpuSlot { node, filled: true });
        }
        let end = scenario.nodes.last().map_or(0, |node| node.id.0 + 1);
        push_empty_slots(&mut slots, next_node..end, cores_per_socket);
        let layout = Self { slots, cores_per_socket };
        layout.check(scenario)?;
        Ok(layout)
    }

    fn check(&self, scenario: &LabMachine) -> Result<()> {
        let first = self.slots.first().is_some_and(|slot| slot.filled && slot.node == 0);
        ensure!(first, "the lab can only boot from node 0: give node 0 CPUs, and CPU 0 among them");
        for node in &scenario.nodes {
            let empty = self.slots.iter().any(|slot| !slot.filled && slot.node == node.id.0);
            ensure!(
                node.cpus.is_empty() || !empty,
                "node {}: its first CPU has a higher number than the first CPU of a later node, \
                 so that Linux would number the nodes otherwise; renumber the CPUs",
                node.id
            );
        }
        Ok(())
    }

    /// Returns whether every slot has its CPU.
    pub fn is_full(&self) -> bool {
        self.slots.iter().all(|slot| slot.filled)
    }

    /// Returns whether an empty slot precedes a filled one.
    pub fn has_gap(&self) -> bool {
        let first_empty = self.slots.iter().position(|slot| !slot.filled);
        first_empty.is_some_and(|empty| self.slots[empty..].iter().any(|slot| slot.filled))
    }

    /// Returns the number of sockets.
    pub fn sockets(&self) -> usize {
        self.slots.len() / self.cores_per_socket as usize
    }
}

/// Returns one socket per node if all nodes with CPUs have equally many in a row, else one per CPU.
fn cores_per_socket(scenario: &LabMachine) -> u32 {
    let mut nodes = scenario.nodes.iter().filter(|node| !node.cpus.is_empty());
    let count = nodes.clone().next().map_or(1, |node| len(&node.cpus));
    let mut start = 0;
    let regular = nodes.all(|node| {
        let block = (start..start + count).map(CpuId).collect();
        start += count;
        node.cpus == block
    });
    if regular { count } else { 1 }
}

fn node_of(scenario: &LabMachine, cpu: CpuId) -> u32 {
    let owner = scenario.nodes.iter().find(|node| node.cpus.contains(cpu));
    owner.map_or(0, |node| node.id.0)
}

fn push_empty_slots(slots: &mut Vec<CpuSlot>, nodes: std::ops::Range<u32>, each: u32) {
    for node in nodes {
        slots.extend((0..each).map(|_| CpuSlot { node, filled: false }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built_in(name: &str) -> CpuLayout {
        CpuLayout::of(&LabMachine::find(name).unwrap()).unwrap()
    }

    /// Formats a layout as `0 1 -2 3`: the node of each slot, a minus before empty ones.
    fn drawn(layout: &CpuLayout) -> String {
        let slots = layout.slots.iter();
        let drawn: Vec<String> = slots
            .map(|slot| format!("{}{}", if slot.filled { "" } else { "-" }, slot.node))
            .collect();
        drawn.join(" ")
    }

    #[test]
    fn holes_and_nodes_without_cpus_get_empty_slots() {
        assert_eq!(drawn(&built_in("two-nodes")), "0 1");
        assert_eq!(drawn(&built_in("four-nodes-hole")), "0 1 -2 3 4");
        assert_eq!(drawn(&built_in("cpuless")), "0 1 -2");
        assert_eq!(drawn(&built_in("memoryless")), "0 1 2");
        assert_eq!(drawn(&built_in("asymmetric")), "0 1 2 0 1 2");
    }

    #[test]
    fn only_an_empty_slot_between_others_is_a_gap() {
        assert!(built_in("four-nodes-hole").has_gap());
        assert!(!built_in("cpuless").has_gap());
        assert!(!built_in("two-nodes").has_gap());
    }

    #[test]
    fn equal_nodes_are_sockets() {
        let text = "[[node]]\nid = 0\ncpus = 2\nmemory = \"1G\"\n\
                    [[node]]\nid = 2\ncpus = 2\nmemory = \"1G\"\n";
        let layout = CpuLayout::of(&LabMachine::parse("test", text).unwrap()).unwrap();
        assert_eq!(drawn(&layout), "0 0 -1 -1 2 2");
        assert_eq!((layout.sockets(), layout.cores_per_socket), (3, 2));
    }

    #[test]
    fn what_linux_would_number_otherwise_is_refused() {
        let swapped = "[[node]]\nid = 0\ncpus = \"1\"\nmemory = \"1G\"\n\
                       [[node]]\nid = 1\ncpus = \"0\"\nmemory = \"1G\"\n";
        let headless = "[[node]]\nid = 0\ncpus = 0\nmemory = \"1G\"\n\
                        [[node]]\nid = 1\ncpus = 1\nmemory = \"1G\"\n";
        let late = "[[node]]\nid = 0\ncpus = \"0\"\nmemory = \"1G\"\n\
                    [[node]]\nid = 1\ncpus = \"2\"\nmemory = \"1G\"\n\
                    [[node]]\nid = 2\ncpus = \"1\"\nmemory = \"1G\"\n";
        for (text, told) in
            [(swapped, "boot from node 0"), (headless, "boot from node 0"), (late, "node 1: its")]
        {
            let why = CpuLayout::of(&LabMachine::parse("test", text).unwrap()).unwrap_err();
            assert!(why.to_string().contains(told), "{why}");
        }
    }
}
