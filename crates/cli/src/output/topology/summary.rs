//! Information that numactl lacks: cores, missing resources of nodes, caches, huge pages.

use std::collections::BTreeMap;

use nodeward_model::topology::{HugePool, Node, Topology};
use nodeward_model::units::format_bytes;
use nodeward_model::{Cpumask, NodeId};

pub(super) fn machine(topology: &Topology) -> String {
    let mut lines = vec![headline(topology)];
    lines.extend(topology.nodes.iter().map(|(&id, node)| node_line(topology, id, node)));
    lines.extend(cache_lines(topology));
    lines.extend(huge_lines(topology));
    lines.concat()
}

fn headline(topology: &Topology) -> String {
    let cpus = counted(topology.cpus.len(), "CPU");
    let cores = counted(topology.cores.len(), "core");
    let mut packages: Vec<_> = topology.cores.iter().filter_map(|core| core.package).collect();
    packages.sort_unstable();
    packages.dedup();
    let packages = match packages.len() {
        0 => String::new(),
        count => format!(" in {}", counted(count, "package")),
    };
    format!("machine: {cpus} on {cores}{packages}; pages of {}\n", size(topology.page_bytes))
}

fn node_line(topology: &Topology, id: NodeId, node: &Node) -> String {
    let cores = topology.cores_of_node(id);
    let what = if node.cpus.is_empty() {
        "memory only".to_owned()
    } else {
        format!("{}{}", cores_text(&cores), packages_text(topology, id))
    };
    let lack = if node.has_memory() { String::new() } else { without_memory(topology, id) };
    format!("node {id}: {what}{lack}\n")
}

fn cores_text(cores: &[Cpumask]) -> String {
    let threads: usize = cores.iter().map(Cpumask::len).sum();
    let each = cores.first().map_or(0, Cpumask::len);
    let count = counted(cores.len(), "core");
    match cores.iter().all(|core| core.len() == each) {
        true => format!("{count} x {}", counted(each, "thread")),
        false => format!("{count} with {} together", counted(threads, "thread")),
    }
}

fn packages_text(topology: &Topology, id: NodeId) -> String {
    let here = topology.cores.iter().filter(|core| core.node == Some(id));
    let mut packages: Vec<_> = here.filter_map(|core| core.package).collect();
    packages.sort_unstable();
    packages.dedup();
    let names: Vec<_> = packages.iter().map(u32::to_string).collect();
    if names.is_empty() { String::new() } else { format!(", package {}", names.join(",")) }
}

fn without_memory(topology: &Topology, id: NodeId) -> String {
    let with_memory = topology.nodes_with_memory();
    match topology.nearest_nodes(id).into_iter().find(|&other| with_memory.contains(other)) {
        Some(other) => format!(", no memory (nearest: node {other})"),
        None => ", no memory".to_owned(),
    }
}

/// Formats one line for all caches that differ only in their CPUs.
fn cache_lines(topology: &Topology) -> Vec<String> {
    let mut alike = BTreeMap::new();
    for cache in &topology.caches {
        let key = (cache.level, cache.kind, cache.size_bytes, cache.cpus.len());
        *alike.entry(key).or_insert(0) += 1;
    }
    let line = |((level, kind, bytes, cpus), count): ((u32, _, Option<u64>, usize), usize)| {
        let kind: nodeward_model::topology::CacheKind = kind;
        let name = format!("L{level}{}", kind.suffix());
        let bytes = bytes.map_or_else(|| "size unknown".to_owned(), size);
        format!("cache {name:<3} {count} x {bytes}, each for {}\n", counted(cpus, "CPU"))
    };
    alike.into_iter().map(line).collect()
}

fn huge_lines(topology: &Topology) -> Vec<String> {
    let mut lines = Vec::new();
    for (id, node) in &topology.nodes {
        let pools = node.huge_pools.iter().filter(|pool| pool.total_pages > 0);
        lines.extend(pools.map(|pool| format!("node {id} huge pages: {}\n", pool_text(pool))));
    }
    if lines.is_empty() {
        lines.push("huge pages: none set aside\n".to_owned());
    }
    lines
}

fn pool_text(pool: &HugePool) -> String {
    let free = pool.free_pages.map_or(String::new(), |free| format!(", {free} free"));
    format!("{} x {}{free}", pool.total_pages, size(pool.page_bytes))
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Formats bytes without meaningless decimals: `4 KiB`.
fn size(bytes: u64) -> String {
    format_bytes(bytes).replace(".00 ", " ").replace(".0 ", " ")
}
