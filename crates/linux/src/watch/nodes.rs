//! Samples the nodes: their headroom, and pages that were allocated elsewhere for lack of it.

use std::collections::BTreeMap;
use std::io;

use nodeward_machine::{Error, Result};
use nodeward_model::{NodeGlance, NodeId, Nodemask, Room};

use super::files::{Kept, is_gone};
use super::tools::{LOOKS_BETWEEN, Tools};
use crate::procfs::zoneinfo;

/// The online nodes and their files.
#[derive(Debug, Default)]
pub struct Nodes {
    online: Kept,
    nodes: Nodemask,
    known: BTreeMap<NodeId, Node>,
}

#[derive(Debug, Default)]
struct Node {
    vmstat: Kept,
    pages: u64,
    /// Pages that the kernel reserves. Only /proc/zoneinfo has them; that file has lines for each
    /// CPU, and the number hardly ever changes.
    kept_pages: u64,
}

/// The counts of a node's vmstat, in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    free: u64,
    cold: u64,
    foreign: u64,
}

impl Nodes {
    /// Returns the present state of the nodes.
    ///
    /// # Errors
    /// If the kernel does not report free memory.
    pub fn glance(&mut self, tools: &mut Tools) -> Result<BTreeMap<NodeId, NodeGlance>> {
        let Some(nodes) = self.read_online(tools)? else { return without_nodes(tools) };
        if nodes != self.nodes || tools.look % LOOKS_BETWEEN == 1 {
            self.read_in_full(nodes, tools)?;
        }
        let glances = self.known.iter_mut().map(|(&id, node)| {
            let Counts { free, cold, foreign } = node.counts(id, tools).unwrap_or_default();
            let free_pages = free.saturating_sub(node.kept_pages);
            let room = Room { free_pages, cold_pages: cold };
            let pages = node.pages;
            (id, NodeGlance { room, pages, foreign_pages: foreign, ..NodeGlance::default() })
        });
        Ok(glances.collect())
    }

    /// Returns the online nodes; `None` on kernels without NUMA support.
    fn read_online(&mut self, tools: &mut Tools) -> Result<Option<Nodemask>> {
        let path = tools.root.join("sys/devices/system/node/online");
        match self.online.read(|| path.clone(), &tools.shelf, &mut tools.buffer) {
            Ok(bytes) => {
                let nodes = String::from_utf8_lossy(bytes).trim().parse();
                let wanted = "a list such as 0-3,8".to_owned();
                nodes.map(Some).map_err(|_| Error::Parse { path, line: 1, wanted })
            }
            Err(error) if is_gone(&error) => Ok(None),
            Err(source) => Err(Error::Read { path, source }),
        }
    }

    fn read_in_full(&mut self, nodes: Nodemask, tools: &mut Tools) -> Result<()> {
        let rooms = zoneinfo::rooms(&tools.root)?;
        self.known.retain(|&id, _| nodes.contains(id));
        for id in nodes.iter() {
            let node = self.known.entry(id).or_default();
            let free = node.counts(id, tools).unwrap_or_default().free;
            let room = rooms.get(&id).copied().unwrap_or_default();
            node.kept_pages = free.saturating_sub(room.free_pages);
            node.pages = total_pages(&format!("sys/devices/system/node/node{id}/meminfo"), tools);
        }
        self.nodes = nodes;
        Ok(())
    }
}

impl Node {
    fn counts(&mut self, id: NodeId, tools: &mut Tools) -> io::Result<Counts> {
        let root = &tools.root;
        let path = || root.join(format!("sys/devices/system/node/node{id}/vmstat"));
        let bytes = self.vmstat.read(path, &tools.shelf, &mut tools.buffer);
        if bytes.is_err() {
            self.vmstat = Kept::default(); // the node went away, and may come back
        }
        Ok(counts(&String::from_utf8_lossy(bytes?)))
    }
}

/// Parses lines `NAME NUMBER`.
fn counts(text: &str) -> Counts {
    let mut counts = Counts::default();
    for (name, number) in text.lines().filter_map(|line| line.split_once(' ')) {
        let place = match name {
            "nr_free_pages" => &mut counts.free,
            "nr_inactive_file" => &mut counts.cold,
            "numa_foreign" => &mut counts.foreign,
            _ => continue,
        };
        *place = number.trim().parse().unwrap_or(0);
    }
    counts
}

/// Returns all memory in pages, from a line `[Node N] MemTotal: KIBIBYTES kB` of a meminfo file; 0
/// if there is none.
fn total_pages(path: &str, tools: &mut Tools) -> u64 {
    let bytes = tools.buffer.read_once(tools.root.join(path)).unwrap_or_default();
    let text = String::from_utf8_lossy(bytes);
    let kibibytes = text.lines().find_map(|line| {
        let (_, number) = line.split_once("MemTotal:")?;
        number.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()
    });
    kibibytes.unwrap_or(0).saturating_mul(1024) / tools.page_bytes
}

/// Returns nodes for a kernel without NUMA support: all memory is on one node, and none is foreign.
fn without_nodes(tools: &mut Tools) -> Result<BTreeMap<NodeId, NodeGlance>> {
    let pages = total_pages("proc/meminfo", tools);
    let glance = |room| NodeGlance { room, pages, ..NodeGlance::default() };
    Ok(zoneinfo::rooms(&tools.root)?.into_iter().map(|(id, room)| (id, glance(room))).collect())
}
