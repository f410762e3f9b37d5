//! An entity with its threads and pages by node, and the nodes that could be its home.

use std::collections::BTreeMap;

use nodeward_model::NodeId;

use super::books::CPU_PPM;
use super::ground::{Ground, Place, had_ppm};
use super::reason::Reason;
use super::rules::Rules;
use super::snapshot::{Bar, Entity, EntityId};

/// An entity of this round.
pub(super) struct View<'a> {
    pub(super) entity: &'a Entity,
    /// What its threads ran or waited for a CPU, in millionths of a CPU.
    pub(super) load_ppm: u64,
    /// What part of that they ran, in millionths.
    pub(super) ran_ppm: u64,
    /// `load_ppm` by the node where they ran last.
    pub(super) ran: Vec<u64>,
    /// The same by affinity.
    pub(super) groups: Vec<(usize, u64)>,
    /// Whether one CPU is too few for its threads: those beside the busiest want more than the
    /// hysteresis.
    pub(super) is_parallel: bool,
    /// Its pages by node.
    pub(super) pages: Vec<u64>,
    /// Those that can be moved.
    pub(super) movable: Vec<u64>,
    /// All its pages, those on nodes that are offline among them.
    pub(super) pages_everywhere: u64,
    /// The nodes that could become its home.
    pub(super) homes: Vec<Place>,
    /// The nodes on which each of its busy threads may run, and whose memory it may have: more
    /// than `homes` if affinity leaves it too few CPUs for its load of now. What is at home there
    /// already stays.
    pub(super) reachable: Vec<Place>,
    /// Why it gets no home.
    pub(super) refusal: Option<Reason>,
}

impl<'a> View<'a> {
    pub(super) fn new(entity: &'a Entity, ground: &Ground, rules: &Rules) -> Self {
        let by_node = |pages: &BTreeMap<NodeId, u64>| by_place(pages, ground);
        let pages = by_node(&entity.pages);
        let fixed = by_node(&entity.fixed_pages);
        let movable = pages.iter().zip(&fixed).map(|(all, fixed)| all.saturating_sub(*fixed));
        let mut view = Self {
            entity,
            load_ppm: 0,
            ran_ppm: CPU_PPM,
            ran: vec![0; ground.len()],
            groups: Vec::new(),
            is_parallel: false,
            movable: movable.collect(),
            pages_everywhere: entity.pages.values().fold(0, |sum, &n| sum.saturating_add(n)),
            pages,
            homes: Vec::new(),
            reachable: Vec::new(),
            refusal: None,
        };
        view.count_threads(ground, rules);
        view.find_homes(ground, rules);
        view.refusal = view.why_none(ground);
        view
    }

    pub(super) fn id(&self) -> EntityId {
        self.entity.id
    }

    /// Pages that are on nodes that are online.
    pub(super) fn pages_all(&self) -> u64 {
        self.pages.iter().sum()
    }

    fn count_threads(&mut self, ground: &Ground, rules: &Rules) {
        let mut groups: Vec<(usize, u64)> = Vec::new();
        let mut busiest = 0;
        for thread in &self.entity.threads {
            let demand = ground.demand_ppm(thread);
            self.load_ppm += demand;
            match groups.iter_mut().find(|group| group.0 == thread.reach) {
                Some(group) => group.1 += demand,
                None => groups.push((thread.reach, demand)),
            }
            busiest = demand.max(busiest);
            if let Some(place) = ground.place(thread.node) {
                self.ran[place] += demand;
            }
        }
        groups.sort_unstable();
        self.groups = groups;
        self.is_parallel = self.load_ppm - busiest > u64::from(rules.hysteresis_ppm);
        let ran: u64 = self.entity.threads.iter().map(had_ppm).sum();
        self.ran_ppm = (ran * CPU_PPM).checked_div(self.load_ppm).unwrap_or(CPU_PPM);
    }

    /// A home has CPUs for every thread that does anything, and memory that it may have. Where an
    /// affinity leaves fewer CPUs than its threads want, they would crowd there.
    fn find_homes(&mut self, ground: &Ground, rules: &Rules) {
        let least = u64::from(rules.nudge_ppm_min);
        let busy = self.groups.iter().any(|&(_, load)| load >= least);
        for place in ground.places() {
            let may_hold = |store: Place| self.entity.may_hold.contains(ground.id(store));
            if !ground.store(place).is_some_and(may_hold) {
                continue;
            }
            let cpus = |reach: usize| ground.reach_cpus(reach, place);
            let wanting = || self.groups.iter().filter(|group| !busy || group.1 >= least);
            if wanting().all(|&(reach, _)| cpus(reach) > 0) {
                self.reachable.push(place);
                let node_cpus = ground.state(place).cpus;
                let narrow = |&&(reach, load): &&(usize, u64)| {
                    cpus(reach) < node_cpus && load > u64::from(cpus(reach)) * CPU_PPM
                };
                if !wanting().any(|group| narrow(&group)) {
                    self.homes.push(place);
                }
            }
        }
        if self.reachable.len() == 1 {
            self.homes.clone_from(&self.reachable); // they crowd there with us or without
        }
    }

    fn why_none(&self, ground: &Ground) -> Option<Reason> {
        if let Some(bar) = self.entity.bar {
            return Some(reason_of(bar));
        }
        if ground.nodes_with_cpus() < 2 {
            return Some(Reason::OneNode);
        }
        if self.entity.threads.is_empty() {
            return Some(Reason::NoThreads);
        }
        if self.entity.children_ns > self.entity.run_ns {
            return Some(Reason::Launcher); // a new process begins where the one that starts it is
        }
        match (self.homes.is_empty(), self.reachable.len()) {
            (false, _) => None,
            (true, 0) => Some(Reason::NoNodeAllowed),
            (true, _) => Some(Reason::NarrowAffinity),
        }
    }
}

fn reason_of(bar: Bar) -> Reason {
    match bar {
        Bar::ExplicitPolicy => Reason::ExplicitPolicy,
        Bar::Frozen => Reason::Frozen,
        Bar::Denied => Reason::Denied,
        Bar::Excluded => Reason::Excluded,
        Bar::Ourselves => Reason::Ourselves,
    }
}

/// Counts by position; those of nodes that are offline are left out.
fn by_place(pages: &BTreeMap<NodeId, u64>, ground: &Ground) -> Vec<u64> {
    let mut list = vec![0; ground.len()];
    for (&id, &count) in pages {
        if let Some(place) = ground.place(id) {
            list[place] = count.min(PAGES_MAX);
        }
    }
    list
}

/// More than any machine has, so that sums of wrong input do not overflow.
const PAGES_MAX: u64 = 1 << 48;
