//! The home of an entity that has none: where its memory is, if that node's CPUs have time for it,
//! or else the idlest.
//!
//! Those come first for which another home would cost most, so that what must be away from its
//! memory, or take it along, is what loses least by it.

use std::cmp::Reverse;

use super::books::{Books, CPU_PPM, ease};
use super::ground::Place;
use super::price::Prices;
use super::reason::Reason;
use super::seat::Seat;
use super::view::View;

/// The homes of entities without one, entered in the books. `homeless` are positions in `views`.
pub(super) fn settle(
    homeless: &[usize],
    views: &[View],
    loads: &[u64],
    prices: Prices,
    books: &mut Books,
) -> Vec<(usize, Seat, Reason)> {
    let mut order: Vec<Settler> = homeless
        .iter()
        .map(|&index| Settler::new(index, &views[index], loads[index], prices))
        .collect();
    order.sort_by_key(|settler| (Reverse(settler.lead_ns()), settler.view.id()));
    let mut settled = Vec::new();
    for settler in order {
        let (seat, reason) = settler.choose(prices, books);
        books.enter(settler.view, settler.load_ppm, &seat);
        settled.push((settler.index, seat, reason));
    }
    settled
}

struct Settler<'a> {
    index: usize,
    view: &'a View<'a>,
    load_ppm: u64,
    /// Its possible homes and what they cost, the cheapest first; of those that cost as much
    /// within the hysteresis the one where it runs most. Where memory is was sampled, and it leaves
    /// what it began with where it began.
    homes: Vec<(u64, Place)>,
}

impl<'a> Settler<'a> {
    fn new(index: usize, view: &'a View<'a>, load_ppm: u64, prices: Prices) -> Self {
        let cost = |&place: &Place| (prices.home_ns(view, load_ppm, place), place);
        let mut homes: Vec<_> = view.homes.iter().map(cost).collect();
        let least = homes.iter().map(|home| home.0).min().unwrap_or(0);
        let most = ease(least, prices.rules);
        homes.sort_by_key(|&(cost, place)| {
            let dear = (cost > most).then_some(cost);
            (dear, Reverse(view.ran[place]), cost, place)
        });
        Self { index, view, load_ppm, homes }
    }

    /// What the second-best home costs more than the best.
    fn lead_ns(&self) -> u64 {
        match self.homes[..] {
            [(best, _), (second, _), ..] => second.saturating_sub(best),
            _ => u64::MAX,
        }
    }

    fn choose(&self, prices: Prices, books: &Books) -> (Seat, Reason) {
        let [(_, best), _, ..] = self.homes[..] else {
            return (Seat::One(self.homes[0].1), Reason::OnlyThere);
        };
        if self.larger_than_node(prices, books) {
            return (self.spread(prices, books), Reason::LargerThanNode);
        }
        let has_time = |place: &Place| books.has_time(self.view, self.load_ppm, *place);
        let invites = |place: &Place| books.invites(self.view, self.load_ppm, *place);
        let has_memory = |place: &Place| books.has_memory(self.view, *place);
        let place = self.places().find(|place| invites(place) && has_memory(place));
        let place = place.or_else(|| self.places().find(|p| has_time(p) && has_memory(p)));
        let place = place.or_else(|| self.places().find(has_time));
        let place = place.unwrap_or_else(|| self.idlest(prices, books));
        if self.fits_no_node(place, prices, books) {
            return (self.spread(prices, books), Reason::FitsNoNode);
        }
        let reason = match place == best {
            true if self.view.pages[prices.ground.store(best).unwrap_or(best)] > 0 => {
                Reason::MemoryThere
            }
            true => Reason::RunsThere,
            false if invites(&best) => Reason::MemoryShort,
            false => Reason::Idlest,
        };
        (Seat::One(place), reason)
    }

    fn places(&self) -> impl Iterator<Item = Place> {
        self.homes.iter().map(|&(_, place)| place)
    }

    /// The node whose CPUs would be least busy; of those that are within the hysteresis the one
    /// that costs least.
    fn idlest(&self, prices: Prices, books: &Books) -> Place {
        let busy = |place: Place| books.busy_with(self.view, self.load_ppm, place);
        let least = self.places().map(busy).min().unwrap_or(0);
        let most = ease(least, prices.rules);
        self.places().find(|&place| busy(place) <= most).unwrap_or(self.homes[0].1)
    }

    /// Whether no node that could be its home has so many CPUs or so much memory.
    fn larger_than_node(&self, prices: Prices, books: &Books) -> bool {
        let ground = prices.ground;
        let cpus = |place: Place| ease(ground.cpus_ppm(place), prices.rules);
        let memory = |place: Place| ground.store(place).map_or(0, |store| books.capacity(store));
        self.view.is_parallel && self.places().all(|place| self.load_ppm > cpus(place))
            || self.places().all(|place| self.view.pages_all() > memory(place))
    }

    /// Whether its threads would wait for each other, or others for them, on the best node that
    /// there is, while CPUs elsewhere have time.
    fn fits_no_node(&self, place: Place, prices: Prices, books: &Books) -> bool {
        let crowded = books.busy_with(self.view, self.load_ppm, place);
        self.view.is_parallel
            && !books.has_time(self.view, self.load_ppm, place)
            && crowded > ease(CPU_PPM.max(books.level_ppm()), prices.rules)
    }

    /// As few nodes as have time and memory for it; of equally many those where its memory is.
    fn spread(&self, prices: Prices, books: &Books) -> Seat {
        let ground = prices.ground;
        let store = |place: Place| ground.store(place).unwrap_or(place);
        let there = |place: Place| Reverse(self.view.pages[store(place)]);
        let size = |place: Place| Reverse((books.idle(place), books.capacity(store(place))));
        let near = self.gather(prices, books, |far, place| (there(place), far, size(place)));
        let large = self.gather(prices, books, |far, place| (size(place), far, there(place)));
        let fewest = if large.len() < near.len() { large } else { near };
        match fewest[..] {
            [place] => Seat::One(place),
            _ => Seat::Spread(fewest),
        }
    }

    /// Nodes by a key, the least first, until they have time and memory enough. The key is told
    /// how far a node is from the first.
    fn gather<Key: Ord>(
        &self,
        prices: Prices,
        books: &Books,
        key: impl Fn(u64, Place) -> Key,
    ) -> Vec<Place> {
        let (mut chosen, mut rest) = (Vec::new(), self.places().collect::<Vec<_>>());
        while !rest.is_empty() && !self.enough(&chosen, prices, books) {
            let far = |place| chosen.first().map_or(0, |&first| prices.ground.far(first, place));
            let next = (0..rest.len()).min_by_key(|&at| (key(far(rest[at]), rest[at]), rest[at]));
            chosen.push(rest.swap_remove(next.unwrap_or(0)));
        }
        chosen.sort_unstable();
        chosen
    }

    fn enough(&self, chosen: &[Place], prices: Prices, books: &Books) -> bool {
        let time: u64 = chosen.iter().map(|&place| books.idle(place)).sum();
        let stores = Seat::Spread(chosen.to_vec()).stores(prices.ground);
        let memory: u64 = stores.iter().map(|&store| books.capacity(store)).sum();
        !chosen.is_empty() && time >= self.load_ppm && memory >= self.view.pages_all()
    }
}
