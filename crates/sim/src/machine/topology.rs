//! The topology of the simulated machine as callers see it.

use nodeward_model::topology::{Cache, CacheKind, Core, Distances, Node};
use nodeward_model::{Cpumask, Topology};

use crate::world::World;

/// Returns nodes with their present free memory, cores, caches and distances. Each node is a
/// socket.
pub fn hardware_topology(world: &World) -> Topology {
    let machine = &world.machine;
    let page_bytes = machine.params.page_bytes;
    let (on, zone) = (world.online_cpus(), |index: usize| &world.memory.zones[index]);
    let node = |(index, node): (usize, &nodeward_scenario::NodeSpec)| {
        let told = Node {
            cpus: node.cpus.and(&on),
            memory_bytes: Some(zone(index).managed_pages * page_bytes),
            free_bytes: Some(if zone(index).is_offline {
                0
            } else {
                world.memory.free(index) * page_bytes
            }),
            huge_pools: Vec::new(),
        };
        (node.id, told)
    };
    let nodes = machine.nodes.iter().enumerate();
    let mut topology = Topology {
        page_bytes,
        cpus: on.clone(),
        nodes: nodes.map(node).collect(),
        cores: cores(world, &on),
        caches: caches(world, &on),
        distances: Distances::new(
            machine.nodes.iter().map(|node| node.id),
            machine.distances.clone(),
        )
        .ok(),
    };
    topology.sort();
    topology
}

fn cores(world: &World, on: &Cpumask) -> Vec<Core> {
    let of_node = |index: usize| {
        let id = world.machine.nodes[index].id;
        let core = move |cpus: Vec<_>| Core {
            cpus: cpus.into_iter().filter(|&cpu| on.contains(cpu)).collect(),
            package: u32::try_from(index).ok(),
            node: Some(id),
        };
        world.machine.cores(index).into_iter().map(core).filter(|core| !core.cpus.is_empty())
    };
    (0..world.machine.nodes.len()).flat_map(of_node).collect()
}

/// Returns the last-level cache of each complex.
fn caches(world: &World, on: &Cpumask) -> Vec<Cache> {
    let mut complexes = vec![Cpumask::new(); world.layout.complex_count];
    for cpu in world.layout.cpus.iter().filter(|cpu| on.contains(cpu.id)) {
        complexes[cpu.complex].insert(cpu.id);
    }
    let cache = |cpus| Cache {
        level: 3,
        kind: CacheKind::Unified,
        size_bytes: Some(world.machine.params.llc_bytes),
        cpus,
    };
    complexes.into_iter().filter(|cpus| !cpus.is_empty()).map(cache).collect()
}
