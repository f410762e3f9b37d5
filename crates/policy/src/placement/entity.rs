//! An entity in a round: its load and its memory by node, the nodes that could be its home, and
//! what the stages have decided about it so far.

use std::collections::BTreeMap;

use nodeward_model::NodeId;

use super::home::{Home, HomePlacement};
use super::node_table::{NodeIndex, NodeTable};
use super::plan::{Decision, Verdict};
use super::reason::Reason;
use super::rules::{CPU_PPM, PAGES_MAX, WORKS_PPM};
use super::snapshot::{Entity, EntityId, Exclusion, Snapshot, Target, Thread};

/// One entity of a round. Lists have an entry for each node. Loads are in millionths of a CPU.
pub(super) struct EntityRound<'a> {
    pub(super) seen: &'a Entity,

    /// The mean load, by which homes are judged.
    pub(super) load_ppm: u64,
    /// The size: the mean load while the entity works. It is greater than `load_ppm` if the entity
    /// rests in between.
    pub(super) working_ppm: u64,
    /// The entity worked all the time since the last snapshot: one thread always ran or waited.
    pub(super) works: bool,
    /// The load since the last snapshot: what threads ran or waited for.
    pub(super) wanted_ppm: u64,
    /// The part of `wanted_ppm` that threads ran, in millionths.
    pub(super) ran_part_ppm: u64,
    /// `wanted_ppm` by the node where threads ran last.
    pub(super) load_on: Vec<u64>,
    /// `wanted_ppm` by affinity.
    pub(super) load_by_affinity: Vec<(usize, u64)>,
    /// One CPU is too few for the threads: those beside the busiest want more than the margin.
    pub(super) is_parallel: bool,

    /// The base pages of the entity.
    pub(super) pages: Vec<u64>,
    /// The pages among `pages` that can be moved.
    pub(super) movable: Vec<u64>,
    /// All pages that the entity uses: its own, also those on nodes that are offline, and its part
    /// of segments.
    pub(super) pages_everywhere: u64,
    /// The entity's part of the segments that it maps, by its load among all users.
    pub(super) segment_pages: Vec<u64>,

    /// The nodes that could become its home.
    pub(super) candidates: Vec<NodeIndex>,
    /// The nodes on which each busy thread may run, and on which the entity may have memory. A home
    /// that is there stays, also where the affinity leaves too few CPUs for the present load.
    pub(super) allowed: Vec<NodeIndex>,
    /// The nodes that busy threads may use, if the threads are *bound apart*: each thread has a
    /// node, and no node is for all threads. Otherwise empty.
    pub(super) apart: Vec<NodeIndex>,
    /// The reason for which the entity gets no home.
    pub(super) refusal: Option<Reason>,

    /// The home may be moved: there is one, and its hold is over.
    pub(super) may_move: bool,
    /// The home in this round.
    pub(super) placement: Option<HomePlacement>,
    /// `load_on` after the threads of this round were moved.
    pub(super) load_after: Vec<u64>,
    /// The decision as far as the stages have made it.
    pub(super) decision: Decision,
}

impl<'a> EntityRound<'a> {
    /// The entities of a snapshot, each once, in the order of their numbers.
    pub(super) fn all(snapshot: &'a Snapshot, nodes: &NodeTable) -> Vec<Self> {
        let mut seen: Vec<&Entity> = snapshot.entities.iter().collect();
        seen.sort_by_key(|entity| entity.id);
        seen.dedup_by_key(|entity| entity.id);
        seen.into_iter().map(|entity| Self::new(entity, nodes)).collect()
    }

    fn new(seen: &'a Entity, nodes: &NodeTable) -> Self {
        let pages = by_node(&seen.pages, nodes);
        let fixed = by_node(&seen.fixed_pages, nodes);
        let movable = pages.iter().zip(&fixed).map(|(all, fixed)| all.saturating_sub(*fixed));
        let mut entity = Self {
            seen,
            load_ppm: 0,
            working_ppm: 0,
            works: seen.threads.iter().any(|thread| thread.wanted_ppm() >= WORKS_PPM),
            wanted_ppm: 0,
            ran_part_ppm: CPU_PPM,
            load_on: vec![0; nodes.len()],
            load_by_affinity: Vec::new(),
            is_parallel: false,
            movable: movable.collect(),
            pages,
            pages_everywhere: seen.pages.values().fold(0, |sum, &pages| sum.saturating_add(pages)),
            segment_pages: vec![0; nodes.len()],
            candidates: Vec::new(),
            allowed: Vec::new(),
            apart: Vec::new(),
            refusal: None,
            may_move: false,
            placement: None,
            load_after: Vec::new(),
            decision: Decision::new(seen.id, Verdict::Left, Reason::TooYoung),
        };
        entity.count_threads(nodes);
        entity.find_candidates(nodes);
        entity.refusal = entity.find_refusal(nodes);
        entity.decision.reason = entity.refusal.unwrap_or(Reason::TooYoung);
        entity
    }

    pub(super) fn id(&self) -> EntityId {
        self.seen.id
    }

    /// Returns the pages on nodes that are online.
    pub(super) fn pages_all(&self) -> u64 {
        self.pages.iter().sum()
    }

    /// Returns whether the entity uses more memory of segments than of its own.
    pub(super) fn uses_segments_most(&self) -> bool {
        self.segment_pages.iter().sum::<u64>() > self.pages_all()
    }

    /// Returns the number of pages that cannot be moved.
    pub(super) fn pages_fixed(&self) -> u64 {
        self.pages.iter().zip(&self.movable).map(|(all, movable)| all - movable).sum()
    }

    /// Returns the pages that a home may want, by node.
    pub(super) fn movable_on(&self, nodes: &NodeTable) -> impl Iterator<Item = (NodeIndex, u64)> {
        movable_on(nodes, &self.movable)
    }

    /// The candidates beside a node.
    pub(super) fn other_candidates(&self, node: NodeIndex) -> impl Iterator<Item = NodeIndex> {
        self.candidates.iter().copied().filter(move |&other| other != node)
    }

    /// Returns where a home is in this round; `None` if the entity can no longer be there.
    pub(super) fn placement_of(&self, home: &Home, nodes: &NodeTable) -> Option<HomePlacement> {
        let is_allowed = |node: &NodeIndex| self.allowed.contains(node);
        if matches!(self.seen.target, Target::Even(_) | Target::WithGroups(_)) {
            let Home::Spread(mask) = home else { return None };
            let is_it = |all: &Vec<_>| self.seen.target.is_with_groups() || *all == self.apart;
            return nodes.indices_of(mask).filter(is_it).map(HomePlacement::Spread);
        }
        match home {
            Home::Node(node) => nodes.index(*node).filter(is_allowed).map(HomePlacement::Node),
            Home::Spread(mask) => nodes
                .indices_of(mask)
                .filter(|all| self.may_spread_over(all, nodes))
                .map(HomePlacement::Spread),
            Home::Interleave { threads, memory } => {
                let threads = nodes.index(*threads).filter(is_allowed)?;
                let memory = nodes.indices_of(memory)?;
                let may_hold = |node: &NodeIndex| {
                    let id = nodes.id(*node);
                    self.seen.target.admits(id)
                        && self.seen.may_hold.contains(id)
                        && !nodes.is_kept_empty(*node)
                };
                memory.iter().all(may_hold).then_some(HomePlacement::Interleave { threads, memory })
            }
        }
    }

    fn count_threads(&mut self, nodes: &NodeTable) {
        let mut busiest = 0;
        for thread in &self.seen.threads {
            let demand = nodes.demand_ppm(thread);
            self.wanted_ppm += demand;
            match self.load_by_affinity.iter_mut().find(|group| group.0 == thread.affinity) {
                Some(group) => group.1 += demand,
                None => self.load_by_affinity.push((thread.affinity, demand)),
            }
            busiest = demand.max(busiest);
            if let Some(node) = nodes.index(thread.node) {
                self.load_on[node] += demand;
            }
        }
        self.load_by_affinity.sort_unstable();
        self.is_parallel = self.wanted_ppm - busiest > u64::from(nodes.rules.hysteresis_ppm);
        let ran: u64 = self.seen.threads.iter().map(Thread::ran_ppm).sum();
        self.ran_part_ppm = (ran * CPU_PPM).checked_div(self.wanted_ppm).unwrap_or(CPU_PPM);
    }

    /// A candidate has CPUs for every thread that does anything, and memory that the entity may
    /// have. Where an affinity leaves fewer CPUs than its threads want, they would crowd there.
    fn find_candidates(&mut self, nodes: &NodeTable) {
        let busy = self.busy_affinities(nodes);
        let cpus = |affinity: usize, node| u64::from(nodes.affinity_cpus(affinity, node));
        let is_narrow = |&(affinity, load): &(usize, u64), node| {
            cpus(affinity, node) < nodes.cpus(node) && load > cpus(affinity, node) * CPU_PPM
        };
        let may_all_use = |&node: &NodeIndex| {
            busy.iter().all(|&(affinity, _)| self.may_use(affinity, node, nodes))
        };
        let is_target = |&node: &NodeIndex| self.seen.target.admits(nodes.id(node));
        let on_target = || nodes.indices().filter(is_target);
        let allowed: Vec<NodeIndex> = on_target().filter(may_all_use).collect();
        let mut candidates = allowed.clone();
        if allowed.len() > 1 {
            // On a single one they crowd with us or without.
            candidates.retain(|&node| !busy.iter().any(|group| is_narrow(group, node)));
        }
        if self.seen.target.is_even() {
            let takes = |&node: &NodeIndex| self.may_hold_at(node, nodes);
            self.apart = on_target().filter(takes).collect();
            candidates.clear();
        } else if allowed.is_empty() {
            let mut apart = self.nodes_apart(&busy, nodes);
            apart.retain(is_target);
            self.apart = apart;
        }
        (self.allowed, self.candidates) = (allowed, candidates);
    }

    /// The nodes of these affinities together, if each has one.
    fn nodes_apart(&self, busy: &[(usize, u64)], nodes: &NodeTable) -> Vec<NodeIndex> {
        let of = |affinity| nodes.indices().filter(move |&it| self.may_use(affinity, it, nodes));
        let mut apart: Vec<NodeIndex> = Vec::new();
        for &(affinity, _) in busy {
            let before = apart.len();
            apart.extend(of(affinity));
            if apart.len() == before {
                return Vec::new();
            }
        }
        apart.sort_unstable();
        apart.dedup();
        apart
    }

    /// Returns whether the entity can be at home on all of these nodes: each busy thread may use
    /// one of them, and each of them is for some thread and among the nodes that were set.
    fn may_spread_over(&self, over: &[NodeIndex], nodes: &NodeTable) -> bool {
        let may_use = |affinity, node| self.may_use(affinity, node, nodes);
        let is_for_any = |&node: &NodeIndex| {
            self.load_by_affinity.iter().any(|&(affinity, _)| may_use(affinity, node))
        };
        let has_one =
            |&(affinity, _): &(usize, u64)| over.iter().any(|&node| may_use(affinity, node));
        let is_target = |&node: &NodeIndex| self.seen.target.admits(nodes.id(node));
        over.iter().all(is_target)
            && over.iter().all(is_for_any)
            && self.busy_affinities(nodes).iter().all(has_one)
    }

    /// Returns whether threads of an affinity may run on a node and have their memory there.
    fn may_use(&self, affinity: usize, node: NodeIndex, nodes: &NodeTable) -> bool {
        nodes.affinity_cpus(affinity, node) > 0 && self.may_hold_at(node, nodes)
    }

    /// Returns whether the entity may have threads on a node, and their memory.
    fn may_hold_at(&self, node: NodeIndex, nodes: &NodeTable) -> bool {
        let may_hold = |memory| self.seen.may_hold.contains(nodes.id(memory));
        !nodes.is_kept_empty(node) && nodes.memory_node(node).is_some_and(may_hold)
    }

    /// Returns whether the entity may be on a node that is kept empty, by its threads, its memory,
    /// and what was set for it.
    fn may_use_kept_empty(&self, nodes: &NodeTable) -> bool {
        let may_use = |node: NodeIndex| {
            let cpus = |&(affinity, _): &(usize, u64)| nodes.affinity_cpus(affinity, node) > 0;
            let id = nodes.id(node);
            self.seen.target.admits(id)
                && self.seen.may_hold.contains(id)
                && self.busy_affinities(nodes).iter().any(cpus)
        };
        nodes.indices().any(|node| nodes.is_kept_empty(node) && may_use(node))
    }

    /// The affinities of threads that do anything, with the load of each; all while none does.
    fn busy_affinities(&self, nodes: &NodeTable) -> Vec<(usize, u64)> {
        let least = u64::from(nodes.rules.nudge_ppm_min);
        let is_busy = |group: &(usize, u64)| group.1 >= least;
        let is_any_busy = self.load_by_affinity.iter().any(is_busy);
        let busy = self.load_by_affinity.iter().filter(|group| !is_any_busy || is_busy(group));
        busy.copied().collect()
    }

    fn find_refusal(&self, nodes: &NodeTable) -> Option<Reason> {
        if let Some(exclusion) = self.seen.exclusion {
            return Some(reason_of(exclusion));
        }
        if nodes.nodes_with_cpus() < 2 {
            return Some(Reason::OneNode);
        }
        if self.seen.threads.is_empty() && self.seen.target == Target::Anywhere {
            return Some(Reason::NoThreads);
        }
        if self.seen.children_ns > self.seen.run_ns {
            return Some(Reason::Launcher); // a child begins on the node of its parent
        }
        match (self.candidates.is_empty(), self.allowed.is_empty()) {
            _ if self.seen.target.is_with_groups() => None,
            _ if !self.apart.is_empty() => None,
            (false, _) => None,
            (true, true) if self.may_use_kept_empty(nodes) => Some(Reason::KeptEmpty),
            (true, true) => Some(Reason::NoNodeAllowed),
            (true, false) => Some(Reason::NarrowAffinity),
        }
    }
}

/// Pages that can be moved, by where they are. What is seldom used stays on its memory-only node.
pub(super) fn movable_on(
    nodes: &NodeTable,
    movable: &[u64],
) -> impl Iterator<Item = (NodeIndex, u64)> {
    let on = movable.iter().copied().enumerate();
    on.filter(|&(node, pages)| pages > 0 && !nodes.holds_seldom_used(node))
}

fn reason_of(exclusion: Exclusion) -> Reason {
    match exclusion {
        Exclusion::ExplicitPolicy => Reason::ExplicitPolicy,
        Exclusion::Frozen => Reason::Frozen,
        Exclusion::Denied => Reason::Denied,
        Exclusion::KernelMoves => Reason::KernelMoves,
        Exclusion::Excluded => Reason::Excluded,
        Exclusion::Grouped => Reason::Grouped,
        Exclusion::Ourselves => Reason::Ourselves,
    }
}

/// Counts of pages by position; those of nodes that are offline are left out.
pub(super) fn by_node(pages: &BTreeMap<NodeId, u64>, nodes: &NodeTable) -> Vec<u64> {
    let mut list = vec![0; nodes.len()];
    for (&id, &count) in pages {
        if let Some(node) = nodes.index(id) {
            list[node] = count.min(PAGES_MAX);
        }
    }
    list
}
