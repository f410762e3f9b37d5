//! Memory traffic of nodes, where the kernel counts it (resctrl), and their bandwidth (HMAT).
//!
//! The counters are those of last-level caches: bytes from and to the memory of the cache's own
//! node, and all bytes. The target of the remaining bytes is known only if there is exactly one
//! other node. So nothing is reported on a machine with memory on more than two nodes, nor where a
//! cache spans nodes.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use nodeward_model::{Cpumask, NodeId, NodeSnapshot};

use super::context::{FULL_READ_INTERVAL, WatchContext};

/// The caches, and the bandwidth of memory.
#[derive(Debug, Default)]
pub struct MemoryTraffic {
    /// The nodes with usable counters, each with its caches; empty where there are no counters.
    caches: BTreeMap<NodeId, Vec<u32>>,
    bandwidths: BTreeMap<NodeId, u64>,
    known: Vec<NodeId>,
}

impl MemoryTraffic {
    /// Sets the traffic so far and the bandwidth of the nodes. Cost: two files for each cache and
    /// group of resctrl, each an interrupt to a CPU of that cache; nothing where resctrl is not
    /// mounted.
    pub fn update(
        &mut self,
        nodes: &mut BTreeMap<NodeId, NodeSnapshot>,
        context: &mut WatchContext,
    ) {
        if context.snapshot_number % FULL_READ_INTERVAL == 1 || !self.known.iter().eq(nodes.keys())
        {
            self.known = nodes.keys().copied().collect();
            self.read_in_full(nodes, context);
        }
        let folders = if self.caches.is_empty() { Vec::new() } else { groups(&context.root) };
        let counted = self.caches.iter().map(|(&id, caches)| {
            (id, sum(caches.iter().map(|&cache| cache_traffic(&folders, cache, context))))
        });
        let counted: Vec<(NodeId, Option<[u64; 2]>)> = counted.collect();
        for &(id, own) in &counted {
            let others = counted.iter().filter(|&&(other, _)| other != id).map(|&(_, it)| it);
            if let Some(node) = nodes.get_mut(&id) {
                let both = own.zip(sum(others));
                node.traffic_bytes = both.map(|(own, other)| own[0].saturating_add(other[1]));
                node.bandwidth_bytes_per_s = self.bandwidths.get(&id).copied();
            }
        }
    }

    fn read_in_full(&mut self, nodes: &BTreeMap<NodeId, NodeSnapshot>, context: &mut WatchContext) {
        *self = Self { known: std::mem::take(&mut self.known), ..Self::default() };
        let with_memory = || nodes.iter().filter(|(_, node)| node.pages > 0).map(|(&id, _)| id);
        if !has_monitoring(&resctrl(&context.root)) || with_memory().count() > 2 {
            return;
        }
        let caches: Option<BTreeMap<_, _>> =
            with_memory().map(|id| Some((id, caches_of(id, context)?))).collect();
        let Some(caches) = caches else { return };
        let mut all: Vec<u32> = caches.values().flatten().copied().collect();
        all.sort_unstable();
        if all.windows(2).all(|pair| pair[0] != pair[1]) {
            self.bandwidths =
                with_memory().filter_map(|id| Some((id, read_bandwidth(id, context)?))).collect();
            self.caches = caches;
        }
    }
}

fn resctrl(root: &Path) -> PathBuf {
    root.join("sys/fs/resctrl")
}

fn has_monitoring(group: &Path) -> bool {
    group.join("mon_data").is_dir()
}

/// Returns the groups that have counters of their own, which include the groups below them.
fn groups(root: &Path) -> Vec<PathBuf> {
    let top = resctrl(root);
    let below = fs::read_dir(&top).into_iter().flatten().flatten().map(|entry| entry.path());
    let below: Vec<_> = below.filter(|folder| has_monitoring(folder)).collect();
    [top].into_iter().chain(below).collect()
}

/// Returns the bytes that a cache exchanged with the memory of its node, and with that of others. A
/// removed group counts as zero; a group whose counters are missing for now makes the sum unknown.
fn cache_traffic(groups: &[PathBuf], cache: u32, context: &mut WatchContext) -> Option<[u64; 2]> {
    let of_group = |group: &PathBuf| {
        let folder = group.join(format!("mon_data/mon_L3_{cache:02}"));
        let mut read = |name: &str| number(folder.join(name), context);
        match [read("mbm_local_bytes"), read("mbm_total_bytes")] {
            [Some(local), Some(total)] => Some([local, total.saturating_sub(local)]),
            _ if has_monitoring(group) => None,
            _ => Some([0, 0]),
        }
    };
    sum(groups.iter().map(of_group))
}

fn sum(mut parts: impl Iterator<Item = Option<[u64; 2]>>) -> Option<[u64; 2]> {
    let add = |sum: [u64; 2], part: [u64; 2]| [0, 1].map(|at| sum[at].saturating_add(part[at]));
    parts.try_fold([0, 0], |all, part| Some(add(all, part?)))
}

/// Returns the last-level caches of a node's CPUs; `None` if it has no CPUs or they do not report
/// them.
fn caches_of(id: NodeId, context: &mut WatchContext) -> Option<Vec<u32>> {
    let mut rest: Cpumask = list(format!("sys/devices/system/node/node{id}/cpulist"), context)?;
    let mut caches = Vec::new();
    while let Some(cpu) = rest.first() {
        let folder = format!("sys/devices/system/cpu/cpu{cpu}/cache/index3");
        caches.push(number(context.root.join(format!("{folder}/id")), context)?.try_into().ok()?);
        let mut shared: Cpumask = list(format!("{folder}/shared_cpu_list"), context)?;
        shared.insert(cpu);
        rest = rest.without(&shared);
    }
    (!caches.is_empty()).then_some(caches)
}

/// Returns the bandwidth of a node's memory for its local CPUs, in bytes per second.
fn read_bandwidth(id: NodeId, context: &mut WatchContext) -> Option<u64> {
    let path = format!("sys/devices/system/node/node{id}/access0/initiators/read_bandwidth");
    let mb_per_s = number(context.root.join(path), context)?;
    Some(mb_per_s.saturating_mul(1_000_000)).filter(|&bytes| bytes > 0)
}

fn number(path: PathBuf, context: &mut WatchContext) -> Option<u64> {
    std::str::from_utf8(context.buffer.read_once(path).ok()?).ok()?.trim().parse().ok()
}

fn list(path: String, context: &mut WatchContext) -> Option<Cpumask> {
    let path = context.root.join(path);
    std::str::from_utf8(context.buffer.read_once(path).ok()?).ok()?.trim().parse().ok()
}
