//! Reads memory nodes: CPUs, memory, pools of huge pages, distances.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use nodeward_machine::Result;
use nodeward_model::topology::{Distances, HugePool, Node};
use nodeward_model::{Cpumask, NodeId, Nodemask};

use super::files::{Dir, ReadBuffer, SysfsFile};

type NodesById = BTreeMap<NodeId, Node>;

/// Returns all online nodes, and their distances if every one of them reports them.
pub(super) fn read(dir: &Dir, buffer: &mut ReadBuffer) -> Result<(NodesById, Option<Distances>)> {
    let online: Nodemask = dir.require("online", buffer)?.list()?;
    let mut nodes = NodesById::new();
    let mut rows = Vec::new();
    for id in online.iter() {
        nodes.insert(id, node(dir, id, buffer)?);
        rows.extend(distance_row(dir, id, online.len(), buffer)?);
    }
    let distances = Distances::new(nodes.keys().copied(), rows).ok();
    Ok((nodes, distances))
}

/// Returns the one node of a kernel without NUMA: all CPUs and all memory.
pub(super) fn single_node(
    root: &Path,
    cpus: &Cpumask,
    buffer: &mut ReadBuffer,
) -> Result<NodesById> {
    let mut node = Node { cpus: cpus.clone(), ..Node::default() };
    if let Some(proc) = Dir::open_if_present(root.join("proc"))?
        && let Some(file) = proc.read("meminfo", buffer)?
    {
        (node.memory_bytes, node.free_bytes) = memory(&file)?;
    }
    Ok(NodesById::from([(NodeId(0), node)]))
}

fn node(dir: &Dir, id: NodeId, buffer: &mut ReadBuffer) -> Result<Node> {
    let cpus = dir.require(&format!("node{id}/cpulist"), buffer)?.list()?;
    let (memory_bytes, free_bytes) = match dir.read(&format!("node{id}/meminfo"), buffer)? {
        Some(file) => memory(&file)?,
        None => (None, None),
    };
    Ok(Node { cpus, memory_bytes, free_bytes, huge_pools: huge_pools(dir, id, buffer)? })
}

/// Returns the bytes that are free on a node.
pub(super) fn free_bytes(dir: &Dir, id: NodeId, buffer: &mut ReadBuffer) -> Result<u64> {
    let name = format!("node{id}/meminfo");
    let file = dir.require(&name, buffer)?;
    memory(&file)?.1.ok_or_else(|| file.unexpected_at(1, "a line with MemFree:"))
}

/// Parses total and free bytes from lines such as `Node 0 MemTotal:  4680484 kB`, with or without
/// the node.
fn memory(file: &SysfsFile<'_>) -> Result<(Option<u64>, Option<u64>)> {
    Ok((memory_field(file, "MemTotal:")?, memory_field(file, "MemFree:")?))
}

pub(super) fn memory_field(file: &SysfsFile<'_>, name: &str) -> Result<Option<u64>> {
    for (index, line) in file.text.lines().enumerate() {
        if let Some((_, value)) = line.split_once(name) {
            let kib = value.trim().strip_suffix(" kB").and_then(|kib| kib.trim().parse().ok());
            let bytes = kib.and_then(|kib: u64| kib.checked_mul(1024));
            return bytes.map(Some).ok_or_else(|| file.unexpected_at(index + 1, "a size in kB"));
        }
    }
    Ok(None)
}

/// Returns one row of the matrix; `None` if the kernel does not report it.
fn distance_row(
    dir: &Dir,
    id: NodeId,
    count: usize,
    buffer: &mut ReadBuffer,
) -> Result<Option<Vec<u32>>> {
    let name = format!("node{id}/distance");
    let Some(file) = dir.read(&name, buffer)? else { return Ok(None) };
    let numbers =
        file.text.split_whitespace().map(str::parse).collect::<std::result::Result<Vec<u32>, _>>();
    match numbers {
        Ok(row) if row.len() == count => Ok(Some(row)),
        _ => Err(file.unexpected("one distance for each node that is online")),
    }
}

pub(super) fn huge_pools(dir: &Dir, id: NodeId, buffer: &mut ReadBuffer) -> Result<Vec<HugePool>> {
    let mut pools = Vec::new();
    for kib in pool_sizes_kib(&dir.path().join(format!("node{id}/hugepages"))) {
        let pool = format!("node{id}/hugepages/hugepages-{kib}kB");
        let Some(total_pages) = pages(dir, &format!("{pool}/nr_hugepages"), buffer)? else {
            continue;
        };
        let free_pages = pages(dir, &format!("{pool}/free_hugepages"), buffer)?;
        pools.push(HugePool { page_bytes: kib * 1024, total_pages, free_pages });
    }
    Ok(pools)
}

fn pages(dir: &Dir, name: &str, buffer: &mut ReadBuffer) -> Result<Option<u64>> {
    dir.read(name, buffer)?.map(|file| file.number()).transpose()
}

/// Returns the sizes for which the kernel keeps pools, ascending; none if it has no huge pages.
fn pool_sizes_kib(dir: &Path) -> Vec<u64> {
    let names = fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let size = |name: &str| name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok();
    let mut sizes: Vec<u64> = names.filter_map(|name| size(name.to_str()?)).collect();
    sizes.retain(|&kib| kib <= u64::MAX / 1024);
    sizes.sort_unstable();
    sizes
}
