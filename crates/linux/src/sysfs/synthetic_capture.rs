//! The files that a kernel would show for a topology, as a captured text: for tests, benchmarks and
//! machines that do not exist.

use std::collections::BTreeMap;

use nodeward_model::topology::{Cache, CacheKind, Core, HugePool, Node, Topology};
use nodeward_model::{CpuId, Cpumask, NodeId};

use super::capture::add_file;
use super::{CPU_DIR, NODE_DIR};

/// Returns the captured text of a machine with this topology.
pub fn as_capture(topology: &Topology) -> String {
    let mut tree = CaptureBuilder::default();
    tree.file(&format!("{NODE_DIR}/online"), &topology.node_ids());
    tree.file(&format!("{NODE_DIR}/has_memory"), &topology.nodes_with_memory());
    tree.file(&format!("{NODE_DIR}/has_cpu"), &topology.nodes_with_cpus());
    for (&id, node) in &topology.nodes {
        tree.node(id, node);
    }
    if let Some(distances) = &topology.distances {
        for (id, row) in distances.rows() {
            let numbers: Vec<_> = row.iter().map(u32::to_string).collect();
            tree.file(&format!("{NODE_DIR}/node{id}/distance"), &numbers.join(" "));
        }
    }
    tree.file(&format!("{CPU_DIR}/online"), &topology.cpus);
    let packages = packages(topology);
    for core in &topology.cores {
        core.cpus.iter().for_each(|cpu| tree.core(cpu, core, &packages[&core.package]));
    }
    for cpu in topology.cpus.iter() {
        let caches = topology.caches.iter().filter(|cache| cache.cpus.contains(cpu));
        caches.enumerate().for_each(|(index, cache)| tree.cache(cpu, index, cache));
    }
    tree.text
}

fn packages(topology: &Topology) -> BTreeMap<Option<u32>, Cpumask> {
    let mut packages = BTreeMap::<_, Cpumask>::new();
    for core in &topology.cores {
        packages.entry(core.package).or_default().extend(core.cpus.iter());
    }
    packages
}

#[derive(Default)]
struct CaptureBuilder {
    text: String,
}

impl CaptureBuilder {
    fn file(&mut self, path: &str, content: &dyn std::fmt::Display) {
        add_file(&mut self.text, path, &format!("{content}\n"));
    }

    fn node(&mut self, id: NodeId, node: &Node) {
        let dir = format!("{NODE_DIR}/node{id}");
        self.file(&format!("{dir}/cpulist"), &node.cpus);
        let field = |name: &str, bytes: Option<u64>| {
            bytes.map(|bytes| format!("Node {id} {:<15}{:>8} kB", format!("{name}:"), bytes / 1024))
        };
        let lines = [field("MemTotal", node.memory_bytes), field("MemFree", node.free_bytes)];
        let lines: Vec<_> = lines.into_iter().flatten().collect();
        self.file(&format!("{dir}/meminfo"), &lines.join("\n"));
        node.huge_pools.iter().for_each(|pool| self.pool(&dir, pool));
    }

    fn pool(&mut self, dir: &str, pool: &HugePool) {
        let dir = format!("{dir}/hugepages/hugepages-{}kB", pool.page_bytes / 1024);
        self.file(&format!("{dir}/nr_hugepages"), &pool.total_pages);
        if let Some(free) = pool.free_pages {
            self.file(&format!("{dir}/free_hugepages"), &free);
        }
    }

    fn core(&mut self, cpu: CpuId, core: &Core, neighbours: &Cpumask) {
        let dir = format!("{CPU_DIR}/cpu{cpu}/topology");
        self.file(&format!("{dir}/thread_siblings_list"), &core.cpus);
        self.file(&format!("{dir}/core_siblings_list"), neighbours);
        let package = core.package.map_or(-1, i64::from);
        self.file(&format!("{dir}/physical_package_id"), &package);
    }

    fn cache(&mut self, cpu: CpuId, index: usize, cache: &Cache) {
        let dir = format!("{CPU_DIR}/cpu{cpu}/cache/index{index}");
        self.file(&format!("{dir}/level"), &cache.level);
        self.file(&format!("{dir}/type"), &kernel_name(cache.kind));
        self.file(&format!("{dir}/shared_cpu_list"), &cache.cpus);
        if let Some(bytes) = cache.size_bytes {
            self.file(&format!("{dir}/size"), &format!("{}K", bytes / 1024));
        }
    }
}

fn kernel_name(kind: CacheKind) -> &'static str {
    match kind {
        CacheKind::Data => "Data",
        CacheKind::Instruction => "Instruction",
        CacheKind::Unified => "Unified",
    }
}
