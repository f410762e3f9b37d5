//! Samples the nodes: their headroom, and pages that were allocated elsewhere for lack of it.

use std::collections::BTreeMap;
use std::io;

use nodeward_machine::{Error, Result};
use nodeward_model::{NodeHeadroom, NodeId, NodeSnapshot, Nodemask};

use super::context::{FULL_READ_INTERVAL, WatchContext};
use super::files::{CachedFile, is_gone};
use crate::procfs::zoneinfo;

/// The online nodes and their files.
#[derive(Debug, Default)]
pub struct NodeCounters {
    online: CachedFile,
    nodes: Nodemask,
    known: BTreeMap<NodeId, NodeFiles>,
}

#[derive(Debug, Default)]
struct NodeFiles {
    vmstat: CachedFile,
    pages: u64,
    /// Pages that the kernel reserves. Only /proc/zoneinfo has them; that file has lines for each
    /// CPU, and the number hardly ever changes.
    reserved_pages: u64,
}

/// The counts of a node's vmstat, in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct NodeVmstat {
    free: u64,
    inactive_file: u64,
    foreign: u64,
}

impl NodeCounters {
    /// Returns the present state of the nodes.
    ///
    /// # Errors
    /// If the kernel does not report free memory.
    pub fn snapshot(&mut self, tools: &mut WatchContext) -> Result<BTreeMap<NodeId, NodeSnapshot>> {
        let Some(nodes) = self.read_online(tools)? else { return without_nodes(tools) };
        if nodes != self.nodes || tools.snapshot_number % FULL_READ_INTERVAL == 1 {
            self.read_in_full(nodes, tools)?;
        }
        let snapshots = self.known.iter_mut().map(|(&id, node)| {
            let NodeVmstat { free, inactive_file: cold, foreign } =
                node.counts(id, tools).unwrap_or_default();
            let free_pages = free.saturating_sub(node.reserved_pages);
            let room = NodeHeadroom { free_pages, inactive_file_pages: cold };
            let pages = node.pages;
            (
                id,
                NodeSnapshot {
                    headroom: room,
                    pages,
                    foreign_pages: foreign,
                    ..NodeSnapshot::default()
                },
            )
        });
        Ok(snapshots.collect())
    }

    /// Returns the online nodes; `None` on kernels without NUMA support.
    fn read_online(&mut self, tools: &mut WatchContext) -> Result<Option<Nodemask>> {
        let path = tools.root.join("sys/devices/system/node/online");
        match self.online.read(|| path.clone(), &tools.open_files, &mut tools.buffer) {
            Ok(bytes) => {
                let nodes = String::from_utf8_lossy(bytes).trim().parse();
                let wanted = "a list such as 0-3,8".to_owned();
                nodes.map(Some).map_err(|_| Error::Parse { path, line: 1, expected: wanted })
            }
            Err(error) if is_gone(&error) => Ok(None),
            Err(source) => Err(Error::Read { path, source }),
        }
    }

    fn read_in_full(&mut self, nodes: Nodemask, tools: &mut WatchContext) -> Result<()> {
        let rooms = zoneinfo::headroom(&tools.root)?;
        self.known.retain(|&id, _| nodes.contains(id));
        for id in nodes.iter() {
            let node = self.known.entry(id).or_default();
            let free = node.counts(id, tools).unwrap_or_default().free;
            let room = rooms.get(&id).copied().unwrap_or_default();
            node.reserved_pages = free.saturating_sub(room.free_pages);
            node.pages = total_pages(&format!("sys/devices/system/node/node{id}/meminfo"), tools);
        }
        self.nodes = nodes;
        Ok(())
    }
}

impl NodeFiles {
    fn counts(&mut self, id: NodeId, tools: &mut WatchContext) -> io::Result<NodeVmstat> {
        let root = &tools.root;
        let path = || root.join(format!("sys/devices/system/node/node{id}/vmstat"));
        let bytes = self.vmstat.read(path, &tools.open_files, &mut tools.buffer);
        if bytes.is_err() {
            self.vmstat = CachedFile::default(); // the node went away, and may come back
        }
        Ok(counts(&String::from_utf8_lossy(bytes?)))
    }
}

/// Parses lines `NAME NUMBER`.
fn counts(text: &str) -> NodeVmstat {
    let mut counts = NodeVmstat::default();
    for (name, number) in text.lines().filter_map(|line| line.split_once(' ')) {
        let place = match name {
            "nr_free_pages" => &mut counts.free,
            "nr_inactive_file" => &mut counts.inactive_file,
            "numa_foreign" => &mut counts.foreign,
            _ => continue,
        };
        *place = number.trim().parse().unwrap_or(0);
    }
    counts
}

/// Returns all memory in pages, from a line `[Node N] MemTotal: KIBIBYTES kB` of a meminfo file; 0
/// if there is none.
fn total_pages(path: &str, tools: &mut WatchContext) -> u64 {
    let bytes = tools.buffer.read_once(tools.root.join(path)).unwrap_or_default();
    let text = String::from_utf8_lossy(bytes);
    let kibibytes = text.lines().find_map(|line| {
        let (_, number) = line.split_once("MemTotal:")?;
        number.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()
    });
    kibibytes.unwrap_or(0).saturating_mul(1024) / tools.page_bytes
}

/// Returns nodes for a kernel without NUMA support: all memory is on one node, and none is foreign.
fn without_nodes(tools: &mut WatchContext) -> Result<BTreeMap<NodeId, NodeSnapshot>> {
    let pages = total_pages("proc/meminfo", tools);
    let snapshot = |room| NodeSnapshot { headroom: room, pages, ..NodeSnapshot::default() };
    Ok(zoneinfo::headroom(&tools.root)?
        .into_iter()
        .map(|(id, room)| (id, snapshot(room)))
        .collect())
}
