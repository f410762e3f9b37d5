//! The nodes of a snapshot by position, so that everything about them is a list.

use nodeward_model::{NodeId, Nodemask};

use super::rules::{CPU_PPM, DISTANCE_LOCAL, HUGE_BYTES, Rules, WHOLE_PPM};
use super::snapshot::{KernelPreference, NodeState, Snapshot, Thread};
use crate::rank::REMOTE_DISTANCE;

/// A node's position among those that are online, in ascending order of their ids.
pub(super) type NodeIndex = usize;

/// The nodes, the distances between them, and how many of their CPUs each affinity leaves.
pub(super) struct NodeTable<'a> {
    snapshot: &'a Snapshot,
    pub(super) rules: &'a Rules,
    nodes: Vec<(NodeId, &'a NodeState)>,
    distances: Vec<Vec<u64>>,
    memory_nodes: Vec<Option<NodeIndex>>,
    affinity_cpus: Vec<Vec<u32>>,
    /// The part of all that threads want that the CPUs can give, in millionths.
    fair_share_ppm: u64,
}

impl<'a> NodeTable<'a> {
    pub(super) fn new(snapshot: &'a Snapshot, rules: &'a Rules) -> Self {
        let nodes: Vec<_> = snapshot.nodes.iter().map(|(&id, state)| (id, state)).collect();
        let ids = || snapshot.nodes.keys();
        let row = |from| ids().map(|to| distance(snapshot, from, *to)).collect();
        let cpus = |affinity: &super::Affinity| ids().map(|&id| affinity.cpus(id)).collect();
        let mut table = Self {
            snapshot,
            rules,
            distances: ids().map(|&from| row(from)).collect(),
            memory_nodes: Vec::new(),
            affinity_cpus: snapshot.affinities.iter().map(cpus).collect(),
            fair_share_ppm: fair_share_ppm(snapshot),
            nodes,
        };
        table.memory_nodes = table.indices().map(|node| table.nearest_memory(node)).collect();
        table
    }

    /// The positions of the nodes of a mask; `None` if one of them is not there.
    pub(super) fn indices_of(&self, mask: &Nodemask) -> Option<Vec<NodeIndex>> {
        mask.iter().map(|node| self.index(node)).collect()
    }

    pub(super) fn indices(&self) -> std::ops::Range<NodeIndex> {
        0..self.nodes.len()
    }

    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(super) fn id(&self, node: NodeIndex) -> NodeId {
        self.nodes[node].0
    }

    pub(super) fn index(&self, id: NodeId) -> Option<NodeIndex> {
        self.nodes.binary_search_by_key(&id, |node| node.0).ok()
    }

    pub(super) fn state(&self, node: NodeIndex) -> &NodeState {
        self.nodes[node].1
    }

    /// Returns how many CPUs of a node are for homes.
    pub(super) fn cpus(&self, node: NodeIndex) -> u64 {
        match self.is_kept_empty(node) {
            true => 0,
            false => u64::from(self.state(node).cpus),
        }
    }

    /// Returns whether a node is to be kept empty.
    pub(super) fn is_kept_empty(&self, node: NodeIndex) -> bool {
        self.state(node).keep_empty
    }

    /// All that a node's CPUs can do, in millionths of a CPU.
    pub(super) fn cpus_ppm(&self, node: NodeIndex) -> u64 {
        self.cpus(node) * CPU_PPM
    }

    /// Returns how many nodes have CPUs.
    pub(super) fn nodes_with_cpus(&self) -> usize {
        self.indices().filter(|&node| !self.is_memory_only(node)).count()
    }

    /// Returns whether what lies on a node stays there: on a memory-only node, where it was put
    /// because it is seldom used.
    pub(super) fn holds_seldom_used(&self, node: NodeIndex) -> bool {
        self.is_memory_only(node) && !self.is_kept_empty(node)
    }

    /// Returns whether a node has memory and no CPUs (a tier).
    pub(super) fn is_memory_only(&self, node: NodeIndex) -> bool {
        self.state(node).cpus == 0
    }

    /// Returns where memory of a node's threads belongs: on the node, or on the nearest that has
    /// memory and is not kept empty; `None` if the node has no CPUs, or there is no such node.
    pub(super) fn memory_node(&self, node: NodeIndex) -> Option<NodeIndex> {
        self.memory_nodes[node]
    }

    /// The distance of memory on `to` for a CPU of `from`.
    pub(super) fn distance(&self, from: NodeIndex, to: NodeIndex) -> u64 {
        self.distances[from][to]
    }

    /// Returns whether a node is short of memory.
    pub(super) fn is_short(&self, node: NodeIndex) -> bool {
        self.state(node).is_short(self.rules)
    }

    /// Returns what a node can take, less the margin, in base pages.
    pub(super) fn room(&self, node: NodeIndex) -> u64 {
        let state = self.state(node);
        let margin = u128::from(state.pages) * u128::from(self.rules.margin_ppm) / WHOLE_PPM;
        state.room_pages.saturating_sub(u64::try_from(margin).unwrap_or(u64::MAX))
    }

    /// Returns what a home on a node can take, less the margin, in base pages.
    pub(super) fn home_room(&self, node: NodeIndex) -> u64 {
        self.memory_node(node).map_or(0, |memory| self.room(memory))
    }

    /// Base pages in a huge page.
    pub(super) fn huge_pages(&self) -> u64 {
        (HUGE_BYTES / self.snapshot.page_bytes.max(1)).max(1)
    }

    /// Returns in what part of the time some task stood still for want of memory.
    pub(super) fn stalled_ppm(&self) -> Option<u32> {
        self.snapshot.stalled_ppm
    }

    /// Returns whether the kernel's NUMA balancing is at work, too, and what it decided stands.
    pub(super) fn kernel_balances(&self) -> bool {
        self.snapshot.kernel_balances
    }

    /// Returns whether the kernel's NUMA balancing wants a thread on none of these nodes. A node
    /// that is kept empty does not count.
    pub(super) fn kernel_prefers_other(&self, thread: &Thread, homes: &[NodeIndex]) -> bool {
        let KernelPreference::Node(id) = thread.kernel_prefers else { return false };
        let is_other = |node| !homes.contains(&node) && !self.is_kept_empty(node);
        self.index(id).is_some_and(is_other)
    }

    /// Returns whether the kernel's NUMA balancing wants a thread on none of these nodes, or may
    /// still.
    pub(super) fn kernel_may_prefer_other(&self, thread: &Thread, homes: &[NodeIndex]) -> bool {
        let is_open = thread.kernel_prefers == KernelPreference::Undecided;
        is_open || self.kernel_prefers_other(thread, homes)
    }

    /// Returns how many affinities there are.
    pub(super) fn affinities(&self) -> usize {
        self.affinity_cpus.len()
    }

    /// Returns how many CPUs of a node an affinity leaves; none if there is no such affinity.
    pub(super) fn affinity_cpus(&self, affinity: usize, node: NodeIndex) -> u32 {
        self.affinity_cpus.get(affinity).map_or(0, |cpus| cpus[node])
    }

    /// Returns how much of a CPU a thread is to have, in millionths: what it had and waited for, if
    /// there are CPUs for all that is wanted, otherwise a fair share of that. So a process counts
    /// as larger than a node if it would be with all others around it, not if it was alone.
    pub(super) fn demand_ppm(&self, thread: &Thread) -> u64 {
        (thread.wanted_ppm() * self.fair_share_ppm / CPU_PPM).max(thread.ran_ppm())
    }

    fn nearest_memory(&self, node: NodeIndex) -> Option<NodeIndex> {
        if self.is_memory_only(node) {
            return None;
        }
        let holds = |&other: &NodeIndex| self.state(other).pages > 0 && !self.is_kept_empty(other);
        let key = |&other: &NodeIndex| {
            (other != node, self.is_memory_only(other), self.distance(node, other))
        };
        self.indices().filter(holds).min_by_key(key)
    }
}

fn distance(snapshot: &Snapshot, from: NodeId, to: NodeId) -> u64 {
    let unknown = if from == to { DISTANCE_LOCAL } else { REMOTE_DISTANCE };
    let known = snapshot.distances.as_ref().and_then(|table| table.get(from, to));
    u64::from(known.unwrap_or(unknown))
}

fn fair_share_ppm(snapshot: &Snapshot) -> u64 {
    let used = snapshot.nodes.values().filter(|node| !node.keep_empty);
    let cpus: u64 = used.map(|node| u64::from(node.cpus)).sum();
    let threads = snapshot.entities.iter().flat_map(|entity| &entity.threads);
    let wanted = threads.map(Thread::wanted_ppm).sum::<u64>().saturating_add(snapshot.others_ppm);
    (cpus * CPU_PPM).saturating_mul(CPU_PPM).checked_div(wanted).unwrap_or(CPU_PPM).min(CPU_PPM)
}
