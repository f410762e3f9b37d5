//! The simulated machine as others are told of it.

use nodeward_model::topology::{Cache, CacheKind, Core, Distances, Node};
use nodeward_model::{Cpumask, Topology};

use crate::world::World;

/// Nodes with the free memory of the moment, cores, caches and distances. Each node is a socket.
pub fn of(world: &World) -> Topology {
    let machine = &world.machine;
    let page_bytes = machine.params.page_bytes;
    let node = |(index, node): (usize, &nodeward_scenario::Node)| {
        let told = Node {
            cpus: node.cpus.clone(),
            memory_bytes: Some(node.memory_bytes),
            free_bytes: Some(world.memory.free(index) * page_bytes),
            huge_pools: Vec::new(),
        };
        (node.id, told)
    };
    let nodes = machine.nodes.iter().enumerate();
    let mut topology = Topology {
        page_bytes,
        cpus: machine.cpus(),
        nodes: nodes.map(node).collect(),
        cores: cores(world),
        caches: caches(world),
        distances: Distances::new(
            machine.nodes.iter().map(|node| node.id),
            machine.distances.clone(),
        )
        .ok(),
    };
    topology.sort();
    topology
}

fn cores(world: &World) -> Vec<Core> {
    let of_node = |index: usize| {
        let id = world.machine.nodes[index].id;
        let core = move |cpus: Vec<_>| Core {
            cpus: cpus.into_iter().collect(),
            package: u32::try_from(index).ok(),
            node: Some(id),
        };
        world.machine.cores(index).into_iter().map(core)
    };
    (0..world.machine.nodes.len()).flat_map(of_node).collect()
}

/// The last-level cache of each complex.
fn caches(world: &World) -> Vec<Cache> {
    let mut complexes = vec![Cpumask::new(); world.layout.complexes];
    for cpu in &world.layout.cpus {
        complexes[cpu.complex].insert(cpu.id);
    }
    let cache = |cpus| Cache {
        level: 3,
        kind: CacheKind::Unified,
        size_bytes: Some(world.machine.params.llc_bytes),
        cpus,
    };
    complexes.into_iter().map(cache).collect()
}
