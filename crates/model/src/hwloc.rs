//! Reads machines that lstopo saved: the XML of hwloc versions 1 (nodes contain sockets) and 2
//! (nodes are attached beside the objects that are local to them).
//!
//! hwloc reports less than sysfs. A node without memory has no object, only a bit in
//! `complete_nodeset`, and no distances. A node without CPUs is listed with the CPUs of the object
//! that it is attached to, so a CPU is assigned to the first of the nodes that are local to the
//! fewest CPUs. Free memory is not recorded.

use std::collections::BTreeMap;

use roxmltree::{Document, Node as Element, ParsingOptions};

use crate::mask::Id;
use crate::topology::{Cache, CacheKind, Core, HugePool, Node};
use crate::{CpuId, Cpumask, NodeId, Topology};

mod distances;
mod error;
mod objects;

pub use error::HwlocError;
use objects::{TopologyReader, id_of, invalid_value, optional, required};

const DEFAULT_PAGE_BYTES: u64 = 4096;

/// Parses hwloc's XML.
pub fn parse(xml: &str) -> Result<Topology, HwlocError> {
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    let document = Document::parse_with_options(xml, options).map_err(HwlocError::NotXml)?;
    let root = document.root_element();
    if !root.has_tag_name("topology") {
        return Err(HwlocError::NotHwloc { root: root.tag_name().name().to_owned() });
    }
    let objects: Vec<_> = root.descendants().filter(|e| e.has_tag_name("object")).collect();
    TopologyReader { root, objects, is_version_1: root.attribute("version").is_none() }.topology()
}

impl<'a> TopologyReader<'a> {
    fn topology(&self) -> Result<Topology, HwlocError> {
        let cpus = cpus_in(self.root)?;
        if cpus.is_empty() {
            return Err(HwlocError::NoCpus);
        }
        let mut machine = Topology {
            page_bytes: self.page_bytes()?,
            nodes: self.nodes()?,
            caches: self.caches()?,
            distances: distances::read(self)?,
            cpus,
            ..Topology::default()
        };
        machine.cores = self.cores(&machine)?;
        machine.sort();
        Ok(machine)
    }

    /// Returns the smallest page size of any node.
    fn page_bytes(&self) -> Result<u64, HwlocError> {
        let pages = self.root.descendants().filter(|e| e.has_tag_name("page_type"));
        let sizes: Vec<u64> = pages.map(|page| required(page, "size")).collect::<Result<_, _>>()?;
        Ok(sizes.into_iter().filter(|&bytes| bytes > 0).min().unwrap_or(DEFAULT_PAGE_BYTES))
    }

    fn nodes(&self) -> Result<BTreeMap<NodeId, Node>, HwlocError> {
        let mut nodes = BTreeMap::new();
        let mut local = Vec::new();
        let base = self.page_bytes()?;
        for object in self.of_type("NUMANode") {
            let id: NodeId = id_of(object)?;
            nodes.insert(id, node(object, base)?);
            local.push((id, self.local_cpus(object)?));
        }
        for object in self.of_type("PU") {
            let cpu: CpuId = id_of(object)?;
            let near = local.iter().filter(|(_, cpus)| cpus.contains(cpu));
            let local_node = near.min_by_key(|(_, cpus)| cpus.len()).map(|&(id, _)| id);
            if let Some(id) = local_node.or_else(|| first_node_in(object, "complete_nodeset")) {
                nodes.entry(id).or_insert_with(memoryless_node).cpus.insert(cpu);
            }
        }
        Ok(nodes)
    }

    fn local_cpus(&self, node: Element<'_, '_>) -> Result<Cpumask, HwlocError> {
        if self.is_version_1 {
            return cpus_in(node);
        }
        let is_locality = |e: &Element<'_, '_>| e.attribute("type") != Some("MemCache");
        node.ancestors().skip(1).find(is_locality).map_or_else(|| Ok(Cpumask::new()), cpus_in)
    }

    fn cores(&self, machine: &Topology) -> Result<Vec<Core>, HwlocError> {
        let mut cores = Vec::new();
        let mut unassigned_cpus = machine.cpus.clone();
        let bare = self.of_type("PU").filter(|pu| ancestor(*pu, &["Core"]).is_none());
        for object in self.of_type("Core").chain(bare) {
            let cpus = cpus_in(object)?;
            let Some(first) = cpus.first().filter(|&cpu| unassigned_cpus.contains(cpu)) else {
                continue;
            };
            unassigned_cpus = unassigned_cpus.without(&cpus);
            let socket = ancestor(object, &["Package", "Socket"]);
            let package = socket.map(|socket| optional(socket, "os_index")).transpose()?.flatten();
            cores.push(Core { cpus, package, node: machine.node_of_cpu(first) });
        }
        Ok(cores)
    }

    fn caches(&self) -> Result<Vec<Cache>, HwlocError> {
        let is_cache = |object: &&Element<'_, '_>| {
            let name = object.attribute("type").unwrap_or("");
            name == "Cache" || (name.starts_with('L') && name.ends_with("Cache"))
        };
        self.objects.iter().filter(is_cache).map(|&object| cache(object)).collect()
    }
}

fn cache(object: Element<'_, '_>) -> Result<Cache, HwlocError> {
    let kind = match optional::<u32>(object, "cache_type")?.unwrap_or(0) {
        0 => CacheKind::Unified,
        1 => CacheKind::Data,
        2 => CacheKind::Instruction,
        other => return Err(invalid_value(object, "cache_type", &other.to_string(), "0, 1 or 2")),
    };
    Ok(Cache {
        level: required(object, "depth")?,
        kind,
        size_bytes: optional(object, "cache_size")?.filter(|&bytes: &u64| bytes > 0),
        cpus: cpus_in(object)?,
    })
}

fn node(object: Element<'_, '_>, base_page_bytes: u64) -> Result<Node, HwlocError> {
    let mut huge_pools = Vec::new();
    for page in object.children().filter(|e| e.has_tag_name("page_type")) {
        let page_bytes = required(page, "size")?;
        if page_bytes > base_page_bytes {
            let total_pages = required(page, "count")?;
            huge_pools.push(HugePool { page_bytes, total_pages, free_pages: None });
        }
    }
    huge_pools.sort_by_key(|pool| pool.page_bytes);
    let memory_bytes = optional(object, "local_memory")?;
    Ok(Node { cpus: Cpumask::new(), memory_bytes, free_bytes: None, huge_pools })
}

fn memoryless_node() -> Node {
    Node { memory_bytes: Some(0), free_bytes: Some(0), ..Node::default() }
}

fn ancestor<'a>(element: Element<'a, 'a>, types: &[&str]) -> Option<Element<'a, 'a>> {
    let is_one =
        |e: &Element<'_, '_>| e.attribute("type").is_some_and(|name| types.contains(&name));
    element.ancestors().skip(1).find(is_one)
}

/// Returns the CPUs at and below an object.
fn cpus_in(element: Element<'_, '_>) -> Result<Cpumask, HwlocError> {
    let is_cpu =
        |e: &Element<'_, '_>| e.has_tag_name("object") && e.attribute("type") == Some("PU");
    element.descendants().filter(is_cpu).map(id_of).collect()
}

/// Returns the lowest node in a set such as `0xf0` or `0x1,0x00000000` (words of 32 bits, highest
/// first).
fn first_node_in(object: Element<'_, '_>, attribute: &str) -> Option<NodeId> {
    let mut number = 0;
    for word in object.attribute(attribute)?.rsplit(',') {
        let bits = u32::from_str_radix(word.strip_prefix("0x").unwrap_or(word), 16).ok()?;
        if bits != 0 {
            number += bits.trailing_zeros();
            return (number < NodeId::LIMIT).then_some(NodeId(number));
        }
        number += 32;
    }
    None
}

#[cfg(test)]
mod tests;
