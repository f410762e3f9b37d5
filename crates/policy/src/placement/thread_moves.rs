//! Stage 6: thread moves. Threads that are away are brought home.
//!
//! Exchanging threads between two nodes leaves both as busy as they were, so as a rule all threads
//! go home. Loads here are what threads want, because what they get depends on their neighbours. A
//! node is crowded if it would have more than its CPUs can do, or more than its share if all nodes
//! are busy, and more than now. Then the lightest threads stay away: none waits at home while a CPU
//! elsewhere is idle.

use std::collections::BTreeMap;

use nodeward_model::Nodemask;

use super::entity::EntityRound;
use super::home::HomePlacement;
use super::node_table::{NodeIndex, NodeTable};
use super::plan::Nudge;
use super::reason::Reason;
use super::rules::CPU_PPM;
use super::snapshot::Thread;

/// Returns the threads to bring home, and enters the result in each entity.
pub(super) fn plan(nodes: &NodeTable, entities: &mut [EntityRound]) -> Vec<Nudge> {
    let mut demand = CpuDemand::new(nodes, entities);
    let mut misplaced = Vec::new();
    for (index, entity) in entities.iter_mut().enumerate() {
        entity.load_after.clone_from(&entity.load_on);
        find_misplaced(index, entity, &mut demand, &mut misplaced);
    }
    demand.keep_away(&mut misplaced, entities);
    misplaced.iter().map(|it| it.nudge(&mut entities[it.index], nodes)).collect()
}

/// Returns the nodes where threads belong, except those that the kernel's balancing places.
pub(super) fn homes(nodes: &NodeTable, entities: &[EntityRound]) -> BTreeMap<u32, Nodemask> {
    let of_entity = |entity: &EntityRound| {
        let is_kernels = nodes.kernel_balances() && entity.uses_segments_most();
        let placement = entity.placement.as_ref().filter(|_| !is_kernels);
        let home = |placement, thread: &Thread| {
            let homes = homes_of(thread, placement, nodes);
            let free = !nodes.kernel_prefers_other(thread, homes);
            free.then(|| (thread.tid, homes.iter().map(|&home| nodes.id(home)).collect()))
        };
        let threads = placement.into_iter().flat_map(|placement| {
            entity.seen.threads.iter().filter_map(move |thread| home(placement, thread))
        });
        threads.collect::<Vec<_>>()
    };
    entities.iter().flat_map(of_entity).collect()
}

/// A thread that is away from home.
struct MisplacedThread<'a> {
    index: usize,
    thread: &'a Thread,
    from: Option<NodeIndex>,
    to: NodeIndex,
}

impl MisplacedThread<'_> {
    fn nudge(&self, entity: &mut EntityRound, nodes: &NodeTable) -> Nudge {
        let load = nodes.demand_ppm(self.thread);
        if let Some(from) = self.from {
            entity.load_after[from] -= load;
        }
        entity.load_after[self.to] += load;
        entity.decision.numbers.threads_nudged += 1;
        let to = [nodes.id(self.to)].into_iter().collect();
        Nudge { entity: entity.id(), tid: self.thread.tid, to }
    }
}

/// Finds the threads of an entity that are away from home and may run there, and counts their load
/// as if they were home.
fn find_misplaced<'a>(
    index: usize,
    entity: &mut EntityRound<'a>,
    demand: &mut CpuDemand,
    misplaced: &mut Vec<MisplacedThread<'a>>,
) {
    let Some(placement) = &entity.placement else { return };
    let nodes = demand.nodes;
    let least = u64::from(nodes.rules.nudge_ppm_min);
    // The kernel sees which part of a segment a thread uses; we do not.
    let is_kernels = nodes.kernel_balances() && entity.uses_segments_most();
    for thread in &entity.seen.threads {
        let from = nodes.index(thread.node);
        let homes = homes_of(thread, placement, nodes);
        // One that gets little where others crowd leaves a node that is kept empty, too.
        let wanted = match from.is_some_and(|from| nodes.is_kept_empty(from)) {
            true => thread.wanted_ppm(),
            false => nodes.demand_ppm(thread),
        };
        if from.is_some_and(|from| homes.contains(&from)) || wanted < least {
            continue;
        }
        entity.decision.numbers.threads_away += 1;
        if is_kernels {
            entity.decision.threads = Some(Reason::ByKernel);
            continue;
        }
        if nodes.kernel_prefers_other(thread, homes) {
            entity.decision.threads = Some(Reason::KernelPrefers);
            continue;
        }
        let reached = homes.iter().copied().filter(|&to| demand.cpus(thread, to) > 0);
        match reached.min_by_key(|&to| (demand.per_cpu(to), to)) {
            None => entity.decision.threads = Some(Reason::OutOfReach),
            Some(to) => {
                demand.move_thread(thread, from, Some(to));
                misplaced.push(MisplacedThread { index, thread, from, to });
            }
        }
    }
}

/// Returns the nodes where a thread belongs: near its part of the memory, if its entity is spread
/// and that part is known.
fn homes_of<'a>(
    thread: &Thread,
    placement: &'a HomePlacement,
    nodes: &NodeTable,
) -> &'a [NodeIndex] {
    let homes = placement.thread_nodes();
    let near = thread.near.and_then(|near| nodes.index(near));
    let near = near.and_then(|near| homes.iter().position(|&home| home == near));
    near.map_or(homes, |at| &homes[at..=at])
}

/// The load that threads want of the CPUs of each node, and its limit, in millionths of a CPU.
struct CpuDemand<'a> {
    nodes: &'a NodeTable<'a>,
    load: Vec<u64>,
    limit: Vec<u64>,
    /// `load` by affinity.
    narrow: Vec<Vec<u64>>,
    /// `narrow` before any thread is moved.
    narrow_before: Vec<Vec<u64>>,
    limit_per_cpu: u64,
    /// Threads that want as much differ by this at most, as it is measured.
    noise: u64,
}

impl<'a> CpuDemand<'a> {
    fn new(nodes: &'a NodeTable<'a>, entities: &[EntityRound]) -> Self {
        let threads = || entities.iter().flat_map(|entity| &entity.seen.threads);
        let cpus: u64 = nodes.indices().map(|node| nodes.cpus(node)).sum();
        let level_ppm = threads().map(Thread::wanted_ppm).sum::<u64>() / cpus.max(1);
        let limit_per_cpu = nodes.rules.with_hysteresis(level_ppm).max(CPU_PPM);
        let mut demand = Self {
            nodes,
            load: vec![0; nodes.len()],
            limit: Vec::new(),
            narrow: vec![vec![0; nodes.len()]; nodes.affinities()],
            narrow_before: Vec::new(),
            limit_per_cpu,
            noise: u64::from(nodes.rules.hysteresis_ppm),
        };
        for thread in threads() {
            demand.move_thread(thread, None, nodes.index(thread.node));
        }
        demand.narrow_before.clone_from(&demand.narrow);
        let limit = |node| (nodes.cpus(node) * limit_per_cpu).max(demand.load[node] + demand.noise);
        demand.limit = nodes.indices().map(limit).collect();
        demand
    }

    /// Returns how many CPUs of a node a thread may use.
    fn cpus(&self, thread: &Thread, node: NodeIndex) -> u32 {
        self.nodes.affinity_cpus(thread.affinity, node)
    }

    /// Returns how busy each CPU of a node is.
    fn per_cpu(&self, node: NodeIndex) -> u64 {
        self.load[node] / self.nodes.cpus(node).max(1)
    }

    fn move_thread(&mut self, thread: &Thread, from: Option<NodeIndex>, to: Option<NodeIndex>) {
        let wanted = thread.wanted_ppm();
        let narrow = self.narrow.get_mut(thread.affinity);
        for load in std::iter::once(&mut self.load).chain(narrow) {
            from.into_iter().for_each(|from| load[from] -= wanted);
            to.into_iter().for_each(|to| load[to] += wanted);
        }
    }

    /// Returns whether a node, or its CPUs that a thread may use, would have too much load, and
    /// more than now.
    fn is_crowded(&self, thread: &Thread, node: NodeIndex) -> bool {
        let narrow = |loads: &[Vec<u64>]| loads.get(thread.affinity).map_or(0, |load| load[node]);
        let narrow_limit = u64::from(self.cpus(thread, node)) * self.limit_per_cpu;
        let narrow_limit = narrow_limit.max(narrow(&self.narrow_before) + self.noise);
        self.load[node] > self.limit[node] || narrow(&self.narrow) > narrow_limit
    }

    /// Leaves threads away, the lightest first, until no node has too much load because of threads
    /// brought home. A thread that stays may crowd the node where it is, so this repeats until
    /// nothing changes. None stays on a node that is kept empty.
    fn keep_away(&mut self, misplaced: &mut Vec<MisplacedThread>, entities: &mut [EntityRound]) {
        misplaced.sort_by_key(|it| (it.thread.wanted_ppm(), it.index, it.thread.tid));
        loop {
            let before = misplaced.len();
            misplaced.retain(|it| {
                let must_leave = it.from.is_some_and(|from| self.nodes.is_kept_empty(from));
                let stays = !must_leave && self.is_crowded(it.thread, it.to);
                if stays {
                    self.move_thread(it.thread, Some(it.to), it.from);
                    entities[it.index].decision.threads = Some(Reason::HomeBusy);
                }
                !stays
            });
            if misplaced.len() == before {
                break;
            }
        }
        misplaced.sort_by_key(|it| (it.index, it.thread.tid));
    }
}
