//! The load and the memory at home on each node, and their limits.
//!
//! | of a node | it is |
//! |---|---|
//! | share | its CPUs' part of the whole load, less load that is bound to it and has no home |
//! | limit | share and margin, or a part of its CPUs if that is more; above it the node is busy |
//! | admit limit | where initial placement stops: halfway to the limit, since loads change |
//! | capacity | all that its CPUs can do, or the limit if that is more |
//! | page capacity | the memory that homes can have there: room, and what they have there |

use std::collections::BTreeMap;

use super::entity::EntityRound;
use super::home::HomePlacement;
use super::node_table::{NodeIndex, NodeTable};
use super::rules::CPU_PPM;

/// Load and pages at home on each node, in a round as its stages change them. Loads are in
/// millionths of a CPU.
pub(super) struct NodeUsage<'a> {
    nodes: &'a NodeTable<'a>,
    /// The load of the whole machine for each CPU, as far as it can be evened out.
    level_ppm: u64,
    load: Vec<u64>,
    share: Vec<u64>,
    limit: Vec<u64>,
    admit_limit: Vec<u64>,
    capacity: Vec<u64>,
    /// Pages at home on each node, wherever they are.
    pages: Vec<u64>,
    page_capacity: Vec<u64>,
    /// Load at home by affinity and node, of affinities that leave only a part of the node.
    narrow: BTreeMap<(usize, NodeIndex), u64>,
}

impl<'a> NodeUsage<'a> {
    /// A machine on which nothing is at home yet.
    pub(super) fn new(nodes: &'a NodeTable<'a>, entities: &[EntityRound]) -> Self {
        let bound = bound_loads(nodes, entities);
        let level_ppm = level_ppm(nodes, entities.iter().map(|it| it.load_ppm).sum(), &bound);
        let limit_ppm = nodes.rules.with_hysteresis(level_ppm);
        let quiet_ppm = u64::from(nodes.rules.quiet_ppm);
        let admit_ppm = level_ppm.midpoint(limit_ppm).max(quiet_ppm);
        let limit_ppm = limit_ppm.max(quiet_ppm);
        let unbound = |ppm: u64| -> Vec<u64> {
            let load = |node| (nodes.cpus(node) * ppm).saturating_sub(bound[node]);
            nodes.indices().map(load).collect()
        };
        Self {
            nodes,
            level_ppm,
            load: vec![0; nodes.len()],
            share: unbound(level_ppm),
            limit: unbound(limit_ppm),
            admit_limit: unbound(admit_ppm),
            capacity: unbound(limit_ppm.max(CPU_PPM)),
            pages: vec![0; nodes.len()],
            page_capacity: page_capacity(nodes, entities),
            narrow: BTreeMap::new(),
        }
    }

    pub(super) fn level_ppm(&self) -> u64 {
        self.level_ppm
    }

    pub(super) fn load(&self, node: NodeIndex) -> u64 {
        self.load[node]
    }

    pub(super) fn limit(&self, node: NodeIndex) -> u64 {
        self.limit[node]
    }

    pub(super) fn is_busy(&self, node: NodeIndex) -> bool {
        self.load[node] > self.limit[node]
    }

    /// Returns how much more is at home on a node than its share.
    pub(super) fn excess(&self, node: NodeIndex) -> u64 {
        self.load[node].saturating_sub(self.share[node])
    }

    /// Returns how much more load the CPUs of a node could do: more than may be at home there if
    /// others are idle.
    pub(super) fn idle(&self, node: NodeIndex) -> u64 {
        self.capacity[node].saturating_sub(self.load[node])
    }

    /// Returns how busy each CPU of a node is with what is at home there.
    pub(super) fn per_cpu(&self, node: NodeIndex) -> u64 {
        self.load[node] / self.nodes.cpus(node).max(1)
    }

    /// Returns how busy each CPU would be that an entity gets on a node.
    pub(super) fn per_cpu_with(&self, entity: &EntityRound, node: NodeIndex) -> u64 {
        let whole = (self.load[node] + entity.load_ppm) / self.nodes.cpus(node).max(1);
        let narrow = |&(affinity, load): &(usize, u64)| {
            let cpus = self.narrow_cpus(affinity, node)?;
            Some((self.narrow_load(affinity, node) + load) / cpus.max(1))
        };
        entity.load_by_affinity.iter().filter_map(narrow).fold(whole, u64::max)
    }

    /// Returns whether a node has CPUs for an entity beside those that are at home there.
    pub(super) fn has_cpus_for(&self, entity: &EntityRound, node: NodeIndex) -> bool {
        let is_crowded = |&(affinity, load): &(usize, u64)| {
            let may = |cpus| cpus * self.level_ppm.max(CPU_PPM);
            let cpus = self.narrow_cpus(affinity, node);
            cpus.is_some_and(|cpus| self.narrow_load(affinity, node) + load > may(cpus))
        };
        let slack = self.limit[node].saturating_sub(self.load[node]);
        entity.load_ppm <= slack && !entity.load_by_affinity.iter().any(is_crowded)
    }

    /// Returns whether a node has CPUs for an entity that has no home yet.
    pub(super) fn admits(&self, entity: &EntityRound, node: NodeIndex) -> bool {
        let with = self.load[node] + entity.load_ppm;
        with <= self.admit_limit[node] && self.has_cpus_for(entity, node)
    }

    /// Returns whether a node has memory for all that an entity has.
    pub(super) fn has_memory_for(&self, entity: &EntityRound, node: NodeIndex) -> bool {
        let Some(memory) = self.nodes.memory_node(node) else { return false };
        let with = self.pages[memory].saturating_add(entity.pages_all());
        with <= self.page_capacity[memory]
    }

    /// The pages that a home on a node can have.
    pub(super) fn page_capacity(&self, node: NodeIndex) -> u64 {
        self.nodes.memory_node(node).map_or(0, |memory| self.page_capacity[memory])
    }

    /// The pages that a home on several nodes can have.
    pub(super) fn page_capacity_of_all(&self, nodes: &[NodeIndex]) -> u64 {
        let memory = HomePlacement::Spread(nodes.to_vec()).memory_nodes(self.nodes);
        memory.iter().map(|&memory| self.page_capacity[memory]).sum()
    }

    /// Returns how many more pages are at home on a node than homes there can have.
    pub(super) fn page_excess(&self, node: NodeIndex) -> u64 {
        let excess =
            |memory: NodeIndex| self.pages[memory].saturating_sub(self.page_capacity[memory]);
        self.nodes.memory_node(node).map_or(0, excess)
    }

    /// An entity is at home somewhere from now on.
    pub(super) fn add(&mut self, entity: &EntityRound, placement: &HomePlacement) {
        for (node, load) in self.load_parts(entity, placement) {
            self.load[node] += load;
        }
        self.change_narrow(entity, placement, u64::saturating_add);
        self.change_pages(entity, placement, u64::saturating_add);
    }

    /// An entity that is at home on one node leaves it.
    pub(super) fn remove(&mut self, entity: &EntityRound, node: NodeIndex) {
        let placement = HomePlacement::Node(node);
        self.load[node] = self.load[node].saturating_sub(entity.load_ppm);
        self.change_narrow(entity, &placement, u64::saturating_sub);
        self.change_pages(entity, &placement, u64::saturating_sub);
    }

    /// Returns what part of an entity's load is at home on each node of a home: as there is time
    /// for it, or where its threads run if they are bound.
    fn load_parts(&self, entity: &EntityRound, placement: &HomePlacement) -> Vec<(NodeIndex, u64)> {
        let nodes = placement.thread_nodes();
        let [_, _, ..] = nodes else {
            return nodes.iter().map(|&node| (node, entity.load_ppm)).collect();
        };
        let weight = |node: NodeIndex| match entity.apart.is_empty() {
            true => self.idle(node).max(CPU_PPM),
            false => entity.load_on[node].max(1),
        };
        let weights: Vec<_> = nodes.iter().map(|&node| (node, weight(node))).collect();
        shared_out(entity.load_ppm, &weights)
    }

    fn change_narrow(
        &mut self,
        entity: &EntityRound,
        placement: &HomePlacement,
        change: fn(u64, u64) -> u64,
    ) {
        let HomePlacement::Node(node) = *placement else { return };
        for &(affinity, load) in &entity.load_by_affinity {
            if self.narrow_cpus(affinity, node).is_some() {
                let sum = self.narrow.entry((affinity, node)).or_insert(0);
                *sum = change(*sum, load);
            }
        }
    }

    fn change_pages(
        &mut self,
        entity: &EntityRound,
        placement: &HomePlacement,
        change: fn(u64, u64) -> u64,
    ) {
        let weight = |memory: NodeIndex| (memory, self.page_capacity[memory].max(1));
        let weights: Vec<_> = placement.memory_nodes(self.nodes).into_iter().map(weight).collect();
        for (memory, pages) in shared_out(entity.pages_all(), &weights) {
            self.pages[memory] = change(self.pages[memory], pages);
        }
    }

    /// Returns how many CPUs of a node an affinity leaves, if these are not all.
    fn narrow_cpus(&self, affinity: usize, node: NodeIndex) -> Option<u64> {
        let cpus = u64::from(self.nodes.affinity_cpus(affinity, node));
        (cpus < self.nodes.cpus(node)).then_some(cpus)
    }

    fn narrow_load(&self, affinity: usize, node: NodeIndex) -> u64 {
        self.narrow.get(&(affinity, node)).copied().unwrap_or(0)
    }
}

/// A number shared out by weights, none of them 0; the last one gets what is left by rounding.
fn shared_out(number: u64, weights: &[(NodeIndex, u64)]) -> Vec<(NodeIndex, u64)> {
    let all: u128 = weights.iter().map(|&(_, weight)| u128::from(weight)).sum();
    let (mut seen, mut given) = (0, 0);
    let part = |&(node, weight): &(NodeIndex, u64)| {
        seen += u128::from(weight);
        let up_to = u64::try_from(u128::from(number) * seen / all.max(1)).unwrap_or(u64::MAX);
        let part = up_to - given;
        given = up_to;
        (node, part)
    };
    weights.iter().map(part).collect()
}

/// Load on each node that gets no home, and whose affinity leaves it no other node.
fn bound_loads(nodes: &NodeTable, entities: &[EntityRound]) -> Vec<u64> {
    let only: Vec<_> = (0..nodes.affinities()).map(|it| only_node(it, nodes)).collect();
    let mut bound = vec![0; nodes.len()];
    for entity in entities.iter().filter(|entity| entity.refusal.is_some()) {
        for thread in &entity.seen.threads {
            if let Some(&Some(node)) = only.get(thread.affinity) {
                bound[node] += nodes.demand_ppm(thread);
            }
        }
    }
    bound
}

fn only_node(affinity: usize, nodes: &NodeTable) -> Option<NodeIndex> {
    let mut within = nodes.indices().filter(|&node| nodes.affinity_cpus(affinity, node) > 0);
    within.next().filter(|_| within.next().is_none())
}

/// Load for each CPU if all that is not bound is evened out. A node with more than that bound to
/// it has no part in the rest.
fn level_ppm(nodes: &NodeTable, all: u64, bound: &[u64]) -> u64 {
    let mut evened: Vec<_> = nodes.indices().filter(|&it| !nodes.is_memory_only(it)).collect();
    let mut rest = all;
    loop {
        let cpus: u64 = evened.iter().map(|&node| nodes.cpus(node)).sum();
        let level = rest / cpus.max(1);
        let is_above = |&node: &NodeIndex| bound[node] > nodes.cpus(node) * level;
        let Some(position) = evened.iter().position(is_above) else { return level };
        rest = rest.saturating_sub(bound[evened.remove(position)]);
    }
}

/// The room of each node with what entities that may have homes have there.
fn page_capacity(nodes: &NodeTable, entities: &[EntityRound]) -> Vec<u64> {
    let mut capacity: Vec<u64> = nodes.indices().map(|node| nodes.room(node)).collect();
    for entity in entities.iter().filter(|entity| entity.refusal.is_none()) {
        for (sum, pages) in capacity.iter_mut().zip(&entity.pages) {
            *sum = sum.saturating_add(*pages);
        }
    }
    capacity
}
