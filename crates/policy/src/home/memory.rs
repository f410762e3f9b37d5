//! Which memory is brought home now: what saves more remote accesses within the horizon than its
//! move costs, as far as its home has room, what saves most for its cost first.

use std::collections::BTreeMap;

use super::books::room;
use super::ground::{Ground, Place};
use super::plan::MemoryMove;
use super::price::{Prices, Threads, Way};
use super::reason::Reason;
use super::seat::{Kept, Seat};
use super::snapshot::EntityId;
use super::threads::Gathering;
use super::trial::Measured;
use super::view::View;

/// A move into room for less than one in so many of its pages is not begun.
const LEAST_PART: u64 = 16;
/// Interleaved memory is even enough if no node has more than one in so many pages too much.
const UNEVEN_PART: u64 = 8;

/// What did not pay for long must gain more than its cost by one in so many parts.
const DOUBT_PART: u64 = 4;

/// What is done about the memory of one entity.
#[derive(Clone, Debug, Default)]
pub(super) struct Haul {
    pub(super) away: u64,
    pub(super) planned: u64,
    pub(super) gain_ns: u64,
    pub(super) cost_ns: u64,
    pub(super) room: u64,
    pub(super) reason: Option<Reason>,
}

/// Pages that could go from a node to another.
struct Load {
    way: Way,
    pages: u64,
    gain_ns: u64,
    cost_ns: u64,
    /// It did not pay for long.
    doubted: bool,
}

impl Load {
    /// Whether it gains more than it costs: a quarter more, where it is doubted, so that loads
    /// that waver do not decide.
    fn pays(&self) -> bool {
        let doubt_ns = if self.doubted { self.cost_ns / DOUBT_PART } else { 0 };
        self.gain_ns > self.cost_ns.saturating_add(doubt_ns)
    }

    /// A part of it.
    fn part(&self, pages: u64, prices: Prices) -> Self {
        let gain_ns = u128::from(self.gain_ns) * u128::from(pages) / u128::from(self.pages.max(1));
        let gain_ns = u64::try_from(gain_ns).unwrap_or(u64::MAX);
        Self { pages, gain_ns, cost_ns: prices.move_ns(pages), ..*self }
    }
}

/// Who brings memory home in a round.
pub(super) struct Hauler<'a> {
    pub(super) prices: Prices<'a>,
    pub(super) views: &'a [View<'a>],
    pub(super) loads: &'a [u64],
    pub(super) seats: &'a [Option<Seat>],
    pub(super) gatherings: &'a [Gathering],
    pub(super) kept: &'a mut BTreeMap<EntityId, Kept>,
}

impl Hauler<'_> {
    /// The moves of this round, and what is said about each entity.
    pub(super) fn haul(mut self) -> (Vec<MemoryMove>, Vec<Haul>) {
        let Prices { ground, rules } = self.prices;
        let mut rooms: Vec<u64> = ground.places().map(|p| room(ground, rules, p)).collect();
        let mut hauls = Vec::new();
        let mut worthwhile = Vec::new();
        for index in 0..self.views.len() {
            let loads = self.loads_of(index);
            let haul = self.look(index, &loads, &rooms);
            if haul.reason == Some(Reason::Pays) {
                worthwhile.push((index, loads));
            }
            hauls.push(haul);
        }
        worthwhile.sort_by(|a, b| by_worth(&hauls[a.0], &hauls[b.0]).then(a.0.cmp(&b.0)));
        let mut moves = Vec::new();
        for (index, loads) in worthwhile {
            let before = moves.len();
            for load in loads.into_iter().filter(Load::pays) {
                moves.extend(self.begin(index, &load, &mut rooms));
            }
            self.note(index, &moves[before..], &mut hauls[index]);
        }
        (moves, hauls)
    }

    /// What an entity has away from home, by the way that it would go.
    fn loads_of(&self, index: usize) -> Vec<Load> {
        let Some(seat) = &self.seats[index] else { return Vec::new() };
        let (view, ground) = (&self.views[index], self.prices.ground);
        let stores = seat.stores(ground);
        let ways = match seat {
            Seat::Interleave { .. } => evening(view, &stores, ground),
            _ => gathering(view, seat, &stores, ground),
        };
        let anywhere = |places: &[Place]| {
            let cpus = |place: Place| u64::from(places.contains(&place)) * ground.cpus_ppm(place);
            ground.places().map(cpus).collect()
        };
        // Threads of a home on several nodes go from one to another all the time.
        let by_place = match seat {
            Seat::Spread(places) => anywhere(places),
            _ => self.gatherings[index].after.clone(),
        };
        let threads = Threads { load_ppm: self.loads[index], by_place: &by_place };
        let doubted =
            self.kept.get(&view.id()).is_some_and(|kept| kept.memory.is_doubted(self.prices.rules));
        let load = |(way, pages)| {
            let gain_ns = match seat {
                Seat::Interleave { .. } => self.opened_ns(index, stores.len() as u64, pages),
                _ => self.prices.saved_ns(view, &threads, way, pages),
            };
            Load { way, pages, gain_ns, cost_ns: self.prices.move_ns(pages), doubted }
        };
        ways.into_iter().map(load).collect()
    }

    /// What pages save that wait for a part of a controller's traffic only, as
    /// `Evener::wider` has it.
    fn opened_ns(&self, index: usize, parts: u64, pages: u64) -> u64 {
        let view = &self.views[index];
        let run_ns = u128::from(self.prices.run_ns(view, self.loads[index]));
        let gain_ns = run_ns * u128::from(pages) / u128::from(2 * view.pages_all().max(1));
        u64::try_from(gain_ns).unwrap_or(u64::MAX) / parts.max(1) * (parts - 1)
    }

    /// What is said about an entity's memory, and whether it may be moved.
    fn look(&mut self, index: usize, loads: &[Load], rooms: &[u64]) -> Haul {
        let (view, rules) = (&self.views[index], self.prices.rules);
        let has_memory = view.pages_all() > 0 && self.seats[index].is_some();
        let Some(kept) = self.kept.get_mut(&view.id()).filter(|_| has_memory) else {
            return Haul::default();
        };
        let sum = |of: fn(&Load) -> u64| loads.iter().map(of).fold(0, u64::saturating_add);
        let away = sum(|load| load.pages);
        kept.memory.judge(measured(view, away), rules);
        let objection = kept.memory.objection();
        let paying: Vec<&Load> = loads.iter().filter(|load| load.pays()).collect();
        let may_move = away > 0 && rules.move_memory;
        let is_worth_it = kept.memory.weigh(may_move.then_some(!paying.is_empty()), rules);
        let reason = if away == 0 {
            Reason::AllHome
        } else if !rules.move_memory {
            Reason::ThreadsOnly
        } else if !is_worth_it {
            Reason::DoesNotPay
        } else if rules.forbid_moves(self.prices.ground.stalled_ppm()) {
            Reason::Stalled
        } else if let Some(objection) = objection {
            objection
        } else if paying.iter().all(|load| self.prices.is_short(load.way.to)) {
            Reason::Pressed
        } else {
            Reason::Pays
        };
        Haul {
            away,
            planned: 0,
            gain_ns: sum(|load| load.gain_ns),
            cost_ns: sum(|load| load.cost_ns),
            room: self.room(index, rooms),
            reason: Some(reason),
        }
    }

    /// How many pages an entity's home can take.
    fn room(&self, index: usize, rooms: &[u64]) -> u64 {
        let stores = self.seats[index].iter().flat_map(|seat| seat.stores(self.prices.ground));
        stores.filter(|&store| !self.prices.is_short(store)).map(|store| rooms[store]).sum()
    }

    /// A move of as much as there is room for; `None` if that is next to nothing, or does not pay.
    fn begin(&self, index: usize, load: &Load, rooms: &mut [u64]) -> Option<MemoryMove> {
        let ground = self.prices.ground;
        let pages = load.pages.min(rooms[load.way.to]);
        let part = load.part(pages, self.prices);
        let is_short = self.prices.is_short(load.way.to);
        if is_short || pages < load.pages.div_ceil(LEAST_PART) || !part.pays() {
            return None;
        }
        rooms[load.way.to] -= pages;
        let reason = match self.seats[index] {
            Some(Seat::Interleave { .. }) => Reason::Bottleneck,
            _ => Reason::Pays,
        };
        Some(MemoryMove {
            entity: self.views[index].id(),
            from: [ground.id(load.way.from)].into_iter().collect(),
            to: ground.id(load.way.to),
            pages_max: pages,
            gain_ns: part.gain_ns,
            cost_ns: part.cost_ns,
            reason,
        })
    }

    /// Notes what is moved of an entity, or that there is no room.
    fn note(&mut self, index: usize, moves: &[MemoryMove], haul: &mut Haul) {
        let view = &self.views[index];
        haul.planned = moves.iter().map(|one| one.pages_max).sum();
        match moves.first() {
            None => haul.reason = Some(Reason::NoRoom),
            Some(first) => haul.reason = Some(first.reason),
        }
        if let Some(kept) = self.kept.get_mut(&view.id()).filter(|_| haul.planned > 0) {
            kept.memory.plan(measured(view, haul.away), self.prices.rules);
        }
    }
}

/// What is away of an entity, beside the pages that stay where they are.
fn measured(view: &View, away: u64) -> Measured {
    let fixed = view.pages.iter().zip(&view.movable).map(|(all, movable)| all - movable).sum();
    (view.entity.pages_at_ns, away, fixed)
}

/// What gains more for its cost comes first.
fn by_worth(a: &Haul, b: &Haul) -> std::cmp::Ordering {
    let [gain_a, cost_a, gain_b, cost_b] =
        [a.gain_ns, a.cost_ns, b.gain_ns, b.cost_ns].map(u128::from);
    (gain_b * cost_a).cmp(&(gain_a * cost_b))
}

/// The ways home for all that is elsewhere, each to the nearest of these nodes.
fn gathering(view: &View, seat: &Seat, stores: &[Place], ground: &Ground) -> Vec<(Way, u64)> {
    let first = seat.threads()[0];
    let way = |(from, pages): (Place, u64)| {
        let near = |&&to: &&Place| (ground.far(from, to), ground.far(first, to), to);
        stores.iter().min_by_key(near).map(|&to| (Way { from, to }, pages))
    };
    strewn(view, ground).filter(|(from, _)| !stores.contains(from)).filter_map(way).collect()
}

/// The ways that leave each of these nodes with as much as any other, in whole huge pages: parts
/// of these would bring the rest along, and then back.
fn evening(view: &View, stores: &[Place], ground: &Ground) -> Vec<(Way, u64)> {
    let all: u64 = strewn(view, ground).map(|(_, pages)| pages).sum();
    let part = all / (stores.len() as u64).max(1);
    let huge = ground.huge_pages();
    let slack = (part / UNEVEN_PART).max(huge);
    let here = |place: Place| view.movable[place];
    let mut lacking: Vec<(Place, u64)> =
        stores.iter().map(|&to| (to, part.saturating_sub(here(to)))).collect();
    let mut ways = Vec::new();
    for (from, pages) in strewn(view, ground) {
        let (mut rest, unit) = match stores.contains(&from) {
            true if pages > part + slack => ((pages - part) / huge * huge, huge),
            true => (0, huge),
            false => (pages, 1),
        };
        for (to, lacks) in &mut lacking {
            let pages = rest.min((*lacks + unit / 2) / unit * unit);
            if pages > 0 {
                ways.push((Way { from, to: *to }, pages));
                (rest, *lacks) = (rest - pages, lacks.saturating_sub(pages));
            }
        }
    }
    ways
}

/// Pages that could be moved and are worth it, by where they are. What lies on a tier was put there
/// because it is seldom used.
fn strewn<'a>(view: &'a View, ground: &'a Ground) -> impl Iterator<Item = (Place, u64)> + 'a {
    let pages = |place: Place| (place, view.movable[place]);
    ground.places().filter(|&p| !ground.is_tier(p)).map(pages).filter(|&(_, pages)| pages > 0)
}
