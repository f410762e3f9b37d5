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
    pub fn snapshot(
        &mut self,
        context: &mut WatchContext,
    ) -> Result<BTreeMap<NodeId, NodeSnapshot>> {
        let Some(nodes) = self.read_online(context)? else { return without_nodes(context) };
        if nodes != self.nodes || context.snapshot_number % FULL_READ_INTERVAL == 1 {
            self.read_in_full(nodes, context)?;
        }
        let snapshots = self.known.iter_mut().map(|(&id, node)| {
            let NodeVmstat { free, inactive_file: cold, foreign } =
                node.counts(id, context).unwrap_or_default();
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
    fn read_online(&mut self, context: &mut WatchContext) -> Result<Option<Nodemask>> {
        let path = context.root.join("sys/devices/system/node/online");
        match self.online.read(|| path.clone(), &context.open_files, &mut context.buffer) {
            Ok(bytes) => {
                let nodes = String::from_utf8_lossy(bytes).trim().parse();
                let wanted = "a list such as 0-3,8".to_owned();
                nodes.map(Some).map_err(|_| Error::Parse { path, line: 1, expected: wanted })
            }
            Err(error) if is_gone(&error) => Ok(None),
            Err(source) => Err(Error::Read { path, source }),
        }
    }

    fn read_in_full(&mut self, nodes: Nodemask, context: &mut WatchContext) -> Result<()> {
        let rooms = zoneinfo::headroom(&context.root)?;
        self.known.retain(|&id, _| nodes.contains(id));
        for id in nodes.iter() {
            let node = self.known.entry(id).or_default();
            let free = node.counts(id, context).unwrap_or_default().free;
            let room = rooms.get(&id).copied().unwrap_or_default();
            node.reserved_pages = free.saturating_sub(room.free_pages);
            node.pages = total_pages(&format!("sys/devices/system/node/node{id}/meminfo"), context);
        }
        self.nodes = nodes;
        Ok(())
    }
}

impl NodeFiles {
    fn counts(&mut self, id: NodeId, context: &mut WatchContext) -> io::Result<NodeVmstat> {
        let root = &context.root;
        let path = || root.join(format!("sys/devices/system/node/node{id}/vmstat"));
        let bytes = self.vmstat.read(path, &context.open_files, &mut context.buffer);
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
fn total_pages(path: &str, context: &mut WatchContext) -> u64 {
    let bytes = context.buffer.read_once(context.root.join(path)).unwrap_or_default();
    let text = String::from_utf8_lossy(bytes);
    let kibibytes = text.lines().find_map(|line| {
        let (_, number) = line.split_once("MemTotal:")?;
        number.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()
    });
    kibibytes.unwrap_or(0).saturating_mul(1024) / context.page_bytes
}

/// Returns nodes for a kernel without NUMA support: all memory is on one node, and none is foreign.
fn without_nodes(context: &mut WatchContext) -> Result<BTreeMap<NodeId, NodeSnapshot>> {
    let pages = total_pages("proc/meminfo", context);
    let snapshot = |room| NodeSnapshot { headroom: room, pages, ..NodeSnapshot::default() };
    Ok(zoneinfo::headroom(&context.root)?
        .into_iter()
        .map(|(id, room)| (id, snapshot(room)))
        .collect())
}
