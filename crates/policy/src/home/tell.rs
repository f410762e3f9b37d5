//! What was decided, with the numbers that it was decided from, for people and for the engine.

use std::collections::BTreeMap;

use nodeward_model::NodeId;

use super::books::Books;
use super::memory::Haul;
use super::plan::{Decision, Home, NodeSum, Numbers, Verdict};
use super::price::Prices;
use super::reason::Reason;
use super::seat::{Kept, Seat};
use super::snapshot::EntityId;
use super::threads::Gathering;
use super::view::View;

/// A round when all is decided. All lists have an entry for each entity.
pub(super) struct Teller<'a> {
    pub(super) prices: Prices<'a>,
    pub(super) views: &'a [View<'a>],
    pub(super) loads: &'a [u64],
    pub(super) seats: &'a [Option<Seat>],
    pub(super) verdicts: &'a [(Verdict, Reason)],
    pub(super) gatherings: &'a [Gathering],
    pub(super) hauls: &'a [Haul],
    pub(super) kept: &'a BTreeMap<EntityId, Kept>,
    pub(super) books: &'a Books<'a>,
}

impl Teller<'_> {
    pub(super) fn homes(&self) -> BTreeMap<EntityId, Home> {
        let home = |(view, seat): (&View, &Option<Seat>)| {
            seat.as_ref().map(|seat| (view.id(), seat.home(self.prices.ground)))
        };
        self.views.iter().zip(self.seats).filter_map(home).collect()
    }

    pub(super) fn decisions(&self) -> Vec<Decision> {
        (0..self.views.len()).map(|index| self.decision(index)).collect()
    }

    fn decision(&self, index: usize) -> Decision {
        let (verdict, reason) = self.verdicts[index];
        let spread = matches!(self.seats[index], Some(Seat::Spread(_)));
        let memory = match self.hauls[index].reason {
            Some(Reason::AllHome) if spread => Some(Reason::ByPage),
            reason => reason,
        };
        Decision {
            entity: self.views[index].id(),
            verdict,
            reason,
            threads: self.gatherings[index].reason,
            memory,
            counts_wanted: spread && self.views[index].pages_all() > 0,
            numbers: self.numbers(index),
        }
    }

    fn numbers(&self, index: usize) -> Numbers {
        let (gathering, haul) = (&self.gatherings[index], &self.hauls[index]);
        let threads = self.seats[index].iter().flat_map(Seat::threads);
        let sum = |of: &dyn Fn(usize) -> u64| threads.clone().map(|&place| of(place)).sum();
        let kept = self.kept.get(&self.views[index].id());
        let wait_ns = |kept: &Kept| kept.moves.left_ns().max(kept.memory.wait_ns());
        Numbers {
            load_ppm: self.loads[index],
            node_load_ppm: sum(&|place| self.books.load(place)),
            node_limit_ppm: sum(&|place| self.books.limit(place)),
            pages: self.views[index].pages_all(),
            pages_away: haul.away,
            pages_planned: haul.planned,
            room_pages: haul.room,
            stalled_ppm: self.prices.ground.stalled_ppm(),
            horizon_ns: self.prices.horizon_ns(&self.views[index], self.loads[index]),
            gain_ns: haul.gain_ns,
            cost_ns: haul.cost_ns,
            threads_away: gathering.away,
            threads_nudged: gathering.nudged,
            wait_ns: kept.map_or(0, wait_ns),
        }
    }

    /// Each node's part, local and away.
    pub(super) fn sums(&self) -> BTreeMap<NodeId, NodeSum> {
        let ground = self.prices.ground;
        let sum = |place| NodeSum {
            home_load_ppm: self.books.load(place),
            limit_ppm: self.books.limit(place),
            ..NodeSum::default()
        };
        let mut sums: Vec<NodeSum> = ground.places().map(sum).collect();
        for (view, seat) in self.views.iter().zip(self.seats) {
            self.add(view, seat.as_ref(), &mut sums);
        }
        ground.places().map(|place| ground.id(place)).zip(sums).collect()
    }

    /// Adds an entity. What an entity with several nodes has elsewhere is away from the first.
    fn add(&self, view: &View, seat: Option<&Seat>, sums: &mut [NodeSum]) {
        let threads = seat.map_or(&[][..], Seat::threads);
        let stores = seat.map_or(Vec::new(), |seat| seat.stores(self.prices.ground));
        for place in self.prices.ground.places() {
            let (load, pages) = (view.ran[place], view.pages[place]);
            match threads.first() {
                Some(_) if threads.contains(&place) => sums[place].local_load_ppm += load,
                Some(&home) => {
                    sums[home].away_load_ppm += load;
                    sums[place].other_load_ppm += load;
                }
                None => sums[place].other_load_ppm += load,
            }
            match stores.first() {
                Some(_) if stores.contains(&place) => sums[place].local_pages += pages,
                Some(&home) => {
                    sums[home].away_pages += pages;
                    sums[place].other_pages += pages;
                }
                None => sums[place].other_pages += pages,
            }
        }
    }
}
