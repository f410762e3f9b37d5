//! What is at home on each node, and what may be: load and memory.

use std::collections::BTreeMap;

use super::ground::{Ground, Place};
use super::rules::Rules;
use super::seat::Seat;
use super::view::View;
use crate::damping::with_hysteresis;

pub(super) const CPU_PPM: u64 = 1_000_000;
const WHOLE_PPM: u128 = 1_000_000;

/// The nodes' books of a round.
pub(super) struct Books<'a> {
    ground: &'a Ground,
    /// Load of the whole machine for each CPU, in millionths.
    level_ppm: u64,
    /// Load at home on each node.
    load: Vec<u64>,
    /// Each node's part of the whole load, less what is bound to it and has no home.
    share: Vec<u64>,
    /// What may be at home on it before it counts as busy.
    limit: Vec<u64>,
    /// What new homes may make of it. A half of what may be beyond its share is left for loads
    /// that change.
    welcome: Vec<u64>,
    /// What its CPUs could do, or may have at home if that is more.
    could: Vec<u64>,
    /// Pages at home on each node, wherever they are.
    pages: Vec<u64>,
    /// What memory entities with homes can have there.
    capacity: Vec<u64>,
    /// Load at home by affinity and node, of affinities that leave only a part of the node.
    narrow: BTreeMap<(usize, Place), u64>,
}

impl<'a> Books<'a> {
    /// Empty books. `loads` are those of `views`, as means.
    pub(super) fn new(ground: &'a Ground, rules: &Rules, views: &[View], loads: &[u64]) -> Self {
        let bound = bound_loads(ground, views);
        let level_ppm = level_ppm(ground, loads.iter().sum(), &bound);
        let of_cpus = |place: Place, ppm: u64| u64::from(ground.state(place).cpus) * ppm;
        let quiet_ppm = u64::from(rules.quiet_ppm);
        let eased = ease(level_ppm, rules);
        let [half, eased] = [level_ppm.midpoint(eased), eased].map(|ppm| ppm.max(quiet_ppm));
        let less = |place: Place, ppm: u64| of_cpus(place, ppm).saturating_sub(bound[place]);
        Self {
            ground,
            level_ppm,
            load: vec![0; ground.len()],
            share: ground.places().map(|place| less(place, level_ppm)).collect(),
            limit: ground.places().map(|place| less(place, eased)).collect(),
            welcome: ground.places().map(|place| less(place, half)).collect(),
            could: ground.places().map(|p| less(p, eased.max(CPU_PPM))).collect(),
            pages: vec![0; ground.len()],
            capacity: capacity(ground, rules, views),
            narrow: BTreeMap::new(),
        }
    }

    pub(super) fn level_ppm(&self) -> u64 {
        self.level_ppm
    }

    pub(super) fn load(&self, place: Place) -> u64 {
        self.load[place]
    }

    pub(super) fn limit(&self, place: Place) -> u64 {
        self.limit[place]
    }

    pub(super) fn capacity(&self, place: Place) -> u64 {
        self.capacity[place]
    }

    /// How much more is at home on a node than its share.
    pub(super) fn excess(&self, place: Place) -> u64 {
        self.load[place].saturating_sub(self.share[place])
    }

    /// How much more load may be at home on a node.
    pub(super) fn slack(&self, place: Place) -> u64 {
        self.limit[place].saturating_sub(self.load[place])
    }

    /// How much more load a node could do: more than may be at home there if others are idle.
    pub(super) fn idle(&self, place: Place) -> u64 {
        self.could[place].saturating_sub(self.load[place])
    }

    /// How many more pages are at home on a node than it can have.
    pub(super) fn pages_beyond(&self, place: Place) -> u64 {
        self.pages[place].saturating_sub(self.capacity[place])
    }

    /// Whether a node has CPUs for an entity that has no home yet, beside those that are at home
    /// there.
    pub(super) fn invites(&self, view: &View, load_ppm: u64, place: Place) -> bool {
        let with = self.load[place] + load_ppm;
        with <= self.welcome[place] && self.has_time(view, load_ppm, place)
    }

    /// Whether a node has CPUs for an entity, beside those that are at home there.
    pub(super) fn has_time(&self, view: &View, load_ppm: u64, place: Place) -> bool {
        let crowded = |&(reach, load): &(usize, u64)| {
            let cpus = self.narrow_cpus(reach, place);
            cpus.is_some_and(|cpus| self.narrow_load(reach, place) + load > self.of_cpus(cpus))
        };
        load_ppm <= self.slack(place) && !view.groups.iter().any(crowded)
    }

    /// Whether a node has memory for all that an entity has.
    pub(super) fn has_memory(&self, view: &View, place: Place) -> bool {
        let Some(store) = self.ground.store(place) else { return false };
        self.pages[store].saturating_add(view.pages_all()) <= self.capacity[store]
    }

    /// How busy each CPU would be that an entity gets on a node, in millionths.
    pub(super) fn busy_with(&self, view: &View, load_ppm: u64, place: Place) -> u64 {
        let node_cpus = u64::from(self.ground.state(place).cpus).max(1);
        let whole = (self.load[place] + load_ppm) / node_cpus;
        let group = |&(reach, load): &(usize, u64)| {
            let cpus = self.narrow_cpus(reach, place)?;
            Some((self.narrow_load(reach, place) + load) / cpus.max(1))
        };
        view.groups.iter().filter_map(group).fold(whole, u64::max)
    }

    /// How busy each CPU of a node is with what is at home there, in millionths.
    pub(super) fn busy(&self, place: Place) -> u64 {
        self.load[place] / u64::from(self.ground.state(place).cpus).max(1)
    }

    /// An entity is at home somewhere from now on.
    pub(super) fn enter(&mut self, view: &View, load_ppm: u64, seat: &Seat) {
        for (place, load) in self.parts(load_ppm, seat) {
            self.load[place] += load;
        }
        self.enter_groups(view, seat, u64::saturating_add);
        self.enter_pages(view, seat, u64::saturating_add);
    }

    /// An entity that is at home on one node leaves it.
    pub(super) fn leave(&mut self, view: &View, load_ppm: u64, place: Place) {
        let seat = Seat::One(place);
        self.load[place] = self.load[place].saturating_sub(load_ppm);
        self.enter_groups(view, &seat, u64::saturating_sub);
        self.enter_pages(view, &seat, u64::saturating_sub);
    }

    /// What part of an entity's load is at home on each of its nodes: as there is time for it.
    fn parts(&self, load_ppm: u64, seat: &Seat) -> Vec<(Place, u64)> {
        let places = seat.threads();
        let [_, _, ..] = places else {
            return places.iter().map(|&place| (place, load_ppm)).collect();
        };
        let weight = |&place: &Place| (place, self.idle(place).max(CPU_PPM));
        let weights: Vec<(Place, u64)> = places.iter().map(weight).collect();
        shared_out(load_ppm, &weights)
    }

    fn enter_groups(&mut self, view: &View, seat: &Seat, change: fn(u64, u64) -> u64) {
        let Seat::One(place) = *seat else { return };
        for &(reach, load) in &view.groups {
            if self.narrow_cpus(reach, place).is_some() {
                let sum = self.narrow.entry((reach, place)).or_insert(0);
                *sum = change(*sum, load);
            }
        }
    }

    fn enter_pages(&mut self, view: &View, seat: &Seat, change: fn(u64, u64) -> u64) {
        let capacity = |store: Place| (store, self.capacity[store].max(1));
        let stores: Vec<_> = seat.stores(self.ground).into_iter().map(capacity).collect();
        for (store, pages) in shared_out(view.pages_all(), &stores) {
            self.pages[store] = change(self.pages[store], pages);
        }
    }

    /// How many CPUs of a node an affinity leaves, if these are not all.
    fn narrow_cpus(&self, reach: usize, place: Place) -> Option<u64> {
        let cpus = self.ground.reach_cpus(reach, place);
        (cpus < self.ground.state(place).cpus).then_some(u64::from(cpus))
    }

    fn narrow_load(&self, reach: usize, place: Place) -> u64 {
        self.narrow.get(&(reach, place)).copied().unwrap_or(0)
    }

    /// What so many CPUs may have at home.
    fn of_cpus(&self, cpus: u64) -> u64 {
        cpus * self.level_ppm.max(CPU_PPM)
    }
}

/// A level and what may be beyond it.
pub(super) fn ease(level_ppm: u64, rules: &Rules) -> u64 {
    with_hysteresis(level_ppm, rules.hysteresis_ppm)
}

/// A number shared out by weights, none of them 0; the last one gets what is left by rounding.
pub(super) fn shared_out(number: u64, weights: &[(Place, u64)]) -> Vec<(Place, u64)> {
    let all: u128 = weights.iter().map(|&(_, weight)| u128::from(weight)).sum();
    let (mut seen, mut given) = (0, 0);
    let part = |&(place, weight): &(Place, u64)| {
        seen += u128::from(weight);
        let up_to = u64::try_from(u128::from(number) * seen / all.max(1)).unwrap_or(u64::MAX);
        let part = up_to - given;
        given = up_to;
        (place, part)
    };
    weights.iter().map(part).collect()
}

/// Load on each node that gets no home, and whose affinity leaves it no other node.
fn bound_loads(ground: &Ground, views: &[View]) -> Vec<u64> {
    let only: Vec<Option<Place>> =
        (0..ground.reaches()).map(|reach| only_place(reach, ground)).collect();
    let mut bound = vec![0; ground.len()];
    for view in views.iter().filter(|view| view.refusal.is_some()) {
        for thread in &view.entity.threads {
            if let Some(&Some(place)) = only.get(thread.reach) {
                bound[place] += ground.demand_ppm(thread);
            }
        }
    }
    bound
}

fn only_place(reach: usize, ground: &Ground) -> Option<Place> {
    let mut places = ground.places().filter(|&place| ground.reach_cpus(reach, place) > 0);
    places.next().filter(|_| places.next().is_none())
}

/// Load for each CPU if all that is not bound is evened out. A node with more than that bound to
/// it has no part in the rest.
fn level_ppm(ground: &Ground, all: u64, bound: &[u64]) -> u64 {
    let mut places: Vec<Place> = ground.places().filter(|&p| !ground.is_tier(p)).collect();
    let mut rest = all;
    loop {
        let cpus: u64 = places.iter().map(|&place| u64::from(ground.state(place).cpus)).sum();
        let level = u128::from(rest) * WHOLE_PPM / (u128::from(cpus.max(1)) * WHOLE_PPM);
        let level = u64::try_from(level).unwrap_or(u64::MAX);
        let above = |&place: &Place| bound[place] > u64::from(ground.state(place).cpus) * level;
        let Some(position) = places.iter().position(above) else { return level };
        rest = rest.saturating_sub(bound[places.remove(position)]);
    }
}

/// The room of each node with what entities with homes have there, less a margin.
fn capacity(ground: &Ground, rules: &Rules, views: &[View]) -> Vec<u64> {
    let mut capacity: Vec<u64> = ground.places().map(|p| room(ground, rules, p)).collect();
    for view in views.iter().filter(|view| view.refusal.is_none()) {
        for (sum, pages) in capacity.iter_mut().zip(&view.pages) {
            *sum = sum.saturating_add(*pages);
        }
    }
    capacity
}

/// What a node can take, less a margin.
pub(super) fn room(ground: &Ground, rules: &Rules, place: Place) -> u64 {
    let state = ground.state(place);
    let margin = u128::from(state.pages) * u128::from(rules.margin_ppm) / WHOLE_PPM;
    state.room_pages.saturating_sub(u64::try_from(margin).unwrap_or(u64::MAX))
}
