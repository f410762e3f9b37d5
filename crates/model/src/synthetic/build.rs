//! Builds the topology of a description.

use super::{CacheRule, DistanceRule, NodeGroup, Sharing, Synthetic};
use crate::topology::{Cache, Core, Distances, HugePool, Node, Topology};
use crate::{CpuId, Cpumask, NodeId};

const PAGE_BYTES: u64 = 4096;

impl Synthetic {
    /// Returns the machine that the line describes. Base pages have 4 KiB.
    pub fn topology(&self) -> Topology {
        let cores = self.cores();
        let mut machine = Topology {
            page_bytes: PAGE_BYTES,
            cpus: cores.iter().flat_map(|core| core.cpus.iter()).collect(),
            caches: self.caches.iter().flat_map(|rule| caches(rule, &cores)).collect(),
            ..Topology::default()
        };
        for group in &self.groups {
            machine.nodes.extend(group.ids.iter().map(|&id| (NodeId(id), group.node(id, &cores))));
        }
        machine.distances = self.distances.build(machine.nodes.keys().copied().collect());
        machine.cores = cores;
        machine.sort();
        machine
    }

    /// Returns the cores in the order of the description. Their CPUs are numbered core by core, or
    /// with `split` thread by thread.
    fn cores(&self) -> Vec<Core> {
        let shapes = self.shapes();
        let mut cpus: Vec<_> = shapes.iter().map(|_| Cpumask::new()).collect();
        let mut next = 0..;
        let mut hand_out = |core: usize| {
            cpus[core].extend(next.next().map(CpuId));
        };
        let most = shapes.iter().map(|shape| shape.threads).max().unwrap_or(0);
        if self.split_threads {
            let pairs = (0..most).flat_map(|thread| (0..shapes.len()).map(move |c| (c, thread)));
            pairs
                .filter(|&(core, t)| t < shapes[core].threads)
                .for_each(|(core, _)| hand_out(core));
        } else {
            let each = |(core, shape): (usize, &CoreShape)| (0..shape.threads).map(move |_| core);
            shapes.iter().enumerate().flat_map(each).for_each(hand_out);
        }
        let core = |(shape, cpus): (CoreShape, Cpumask)| Core {
            cpus,
            package: Some(shape.package),
            node: Some(NodeId(shape.node)),
        };
        shapes.into_iter().zip(cpus).map(core).collect()
    }

    fn shapes(&self) -> Vec<CoreShape> {
        let with_cpus = self.groups.iter().filter(|group| group.cores > 0);
        let nodes = with_cpus.flat_map(|group| group.ids.iter().map(move |&id| (id, group)));
        let packages = (0..).flat_map(|p| std::iter::repeat_n(p, self.nodes_per_package as usize));
        let shape = |((node, group), package): ((u32, &NodeGroup), u32)| {
            let shape = CoreShape { node, package, threads: group.threads };
            std::iter::repeat_n(shape, group.cores as usize)
        };
        nodes.zip(packages).flat_map(shape).collect()
    }
}

#[derive(Clone)]
struct CoreShape {
    node: u32,
    package: u32,
    threads: u32,
}

impl NodeGroup {
    fn node(&self, id: u32, cores: &[Core]) -> Node {
        let here = cores.iter().filter(|core| core.node == Some(NodeId(id)));
        let pool = |huge: &super::HugeRule| HugePool {
            page_bytes: huge.page_bytes,
            total_pages: huge.pages,
            free_pages: Some(huge.pages),
        };
        Node {
            cpus: here.flat_map(|core| core.cpus.iter()).collect(),
            memory_bytes: Some(self.memory_bytes),
            free_bytes: Some(self.free_bytes.unwrap_or(self.memory_bytes)),
            huge_pools: self.huge.iter().map(pool).collect(),
        }
    }
}

impl DistanceRule {
    fn build(&self, nodes: Vec<NodeId>) -> Option<Distances> {
        let count = nodes.len();
        match self {
            Self::Unknown => None,
            &Self::Flat { local, remote } => {
                Some(Distances::from_rule(nodes, |a, b| if a == b { local } else { remote }))
            }
            Self::Ring => Some(Distances::from_rule(nodes, |a, b| ring_distance(a, b, count))),
            Self::Matrix(rows) => Distances::new(nodes, rows.clone()).ok(),
        }
    }
}

/// Returns 10 plus 10 for each step on the shorter way round the ring, at most 255.
fn ring_distance(a: usize, b: usize, count: usize) -> u32 {
    let steps = a.abs_diff(b).min(count - a.abs_diff(b));
    u32::try_from(10 + 10 * steps).unwrap_or(255).min(255)
}

fn caches(rule: &CacheRule, cores: &[Core]) -> Vec<Cache> {
    let cache = |cores: &[Core]| Cache {
        level: rule.level,
        kind: rule.kind,
        size_bytes: Some(rule.size_bytes),
        cpus: cores.iter().flat_map(|core| core.cpus.iter()).collect(),
    };
    let of_node = |cores: &[Core]| match rule.sharing {
        Sharing::Node => vec![cache(cores)],
        Sharing::Cores(count) => cores.chunks(count as usize).map(cache).collect(),
    };
    cores.chunk_by(|a, b| a.node == b.node).flat_map(of_node).collect()
}
