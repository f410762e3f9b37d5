//! What surrounds the processes of a fake machine, and what it counts.

use std::collections::BTreeMap;

use nodeward_model::{NodeHeadroom, NodeId, NodeSnapshot};

/// External conditions of a fake machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FakeCounters {
    /// Time for which some task was stalled for lack of memory, in nanoseconds; `None` if the
    /// machine does not count it.
    pub pressure_stall_ns: Option<u64>,
    /// Time for which some task is stalled in 1000 nanoseconds of machine time, in nanoseconds.
    pub stall_permille: u64,
    /// Time for which CPUs were idle, all together, in nanoseconds; `None` if the machine does not
    /// count it.
    pub idle_ns: Option<u64>,
    /// Idle time of all CPUs in 1000 nanoseconds of machine time, in nanoseconds.
    pub idle_permille: u64,
    /// Base pages migrated by others than the caller; `None` if the machine does not count them.
    pub migrated_pages: Option<u64>,
    /// Base pages migrated by the kernel's NUMA balancing; `None` if the machine does not count
    /// them.
    pub balancing_pages: Option<u64>,
    /// Pages that were meant for each node and were allocated elsewhere.
    pub foreign_pages: BTreeMap<NodeId, u64>,
    /// For nodes that count their memory traffic: bytes per second that it carries, and its
    /// bandwidth.
    pub traffic_bytes_per_s: BTreeMap<NodeId, [u64; 2]>,
    /// Bytes that the memory of each node has carried.
    pub traffic_bytes: BTreeMap<NodeId, u64>,
}

impl FakeCounters {
    pub(super) fn advance(&mut self, ns: u64) {
        if let Some(stalled_ns) = &mut self.pressure_stall_ns {
            *stalled_ns += ns * self.stall_permille / 1000;
        }
        if let Some(idle_ns) = &mut self.idle_ns {
            *idle_ns += ns * self.idle_permille / 1000;
        }
        for (&node, &[bytes_per_s, _]) in &self.traffic_bytes_per_s {
            let bytes = u128::from(bytes_per_s) * u128::from(ns) / 1_000_000_000;
            *self.traffic_bytes.entry(node).or_default() += bytes as u64;
        }
    }

    pub(super) fn node_snapshot(
        &self,
        node: NodeId,
        room: NodeHeadroom,
        pages: u64,
    ) -> NodeSnapshot {
        let traffic = self.traffic_bytes_per_s.get(&node);
        NodeSnapshot {
            headroom: room,
            pages,
            foreign_pages: self.foreign_pages.get(&node).copied().unwrap_or(0),
            traffic_bytes: traffic.map(|_| self.traffic_bytes.get(&node).copied().unwrap_or(0)),
            bandwidth_bytes_per_s: traffic.map(|&[_, most]| most),
        }
    }
}
