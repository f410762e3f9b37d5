//! Homes that exist are moved only off a node that has had more than it may for a while, to one
//! that then still has less than that one had. So each move makes the busiest of the two nodes
//! less busy, and with a load that stays as it is moving ends.

use super::books::{Books, CPU_PPM, ease};
use super::ground::Place;
use super::price::Prices;
use super::reason::Reason;
use super::relief::Relief;
use super::seat::Seat;
use super::view::View;

/// The homes of a round, as they are changed.
pub(super) struct Evener<'a, 'b> {
    pub(super) prices: Prices<'a>,
    pub(super) views: &'a [View<'a>],
    pub(super) loads: &'a [u64],
    /// Which entities may get another home now.
    pub(super) free: &'b [bool],
    /// Whose memory may be interleaved now.
    pub(super) open: &'b [bool],
    pub(super) books: &'b mut Books<'a>,
    pub(super) seats: &'b mut [Option<Seat>],
}

impl Evener<'_, '_> {
    /// Relieves these nodes, unless it helped nobody the last time.
    pub(super) fn relieve_if_that_helps(
        &mut self,
        busy: &[Place],
        relief: &mut Relief,
    ) -> Vec<(usize, Reason)> {
        // What came of the last time shows on any node, long before that has been busy for long.
        let busiest = self.prices.ground.places().map(|place| self.share_ppm(place)).max();
        let busiest = busiest.unwrap_or(0);
        if !relief.may(busiest, self.prices.rules) {
            return Vec::new();
        }
        let moved = self.relieve(busy);
        if !moved.is_empty() {
            relief.done(busiest);
        }
        moved
    }

    /// How busy a node is, in millionths of its share.
    fn share_ppm(&self, place: Place) -> u64 {
        self.books.busy(place).saturating_mul(CPU_PPM) / self.books.level_ppm().max(1)
    }

    /// Moves homes off these nodes, which had more than they may for long enough. Returns which
    /// entities got another home.
    fn relieve(&mut self, busy: &[Place]) -> Vec<(usize, Reason)> {
        let mut order = busy.to_vec();
        order.sort_by_key(|&place| (std::cmp::Reverse(self.books.busy(place)), place));
        order.into_iter().flat_map(|place| self.relieve_one(place)).collect()
    }

    /// Entities go until the smaller one of two imbalances is gone, that of load or that of
    /// memory. Those first that lose least for their load, so heavy ones last.
    fn relieve_one(&mut self, from: Place) -> Vec<(usize, Reason)> {
        let mut load = self.books.excess(from);
        let mut pages = self.prices.ground.store(from).map_or(0, |s| self.books.pages_beyond(s));
        let has_pages = pages > 0;
        let mut moved = Vec::new();
        for index in self.lightest_first(from) {
            if load == 0 || has_pages && pages == 0 {
                break;
            }
            let Some(to) = self.destination(index, from) else { continue };
            self.go(index, from, to);
            load = load.saturating_sub(self.loads[index]);
            pages = pages.saturating_sub(self.views[index].pages_all());
            moved.push((index, Reason::Busiest));
        }
        moved
    }

    fn lightest_first(&self, from: Place) -> Vec<usize> {
        let least = u64::from(self.prices.rules.nudge_ppm_min).max(1);
        let mut order: Vec<_> = self
            .at_home(from)
            .filter(|&index| self.loads[index] >= least)
            .filter_map(|index| {
                let (view, load) = (&self.views[index], self.loads[index]);
                let cost = |&to: &Place| self.prices.home_ns(view, load, to);
                let cost = others(view, from).map(|to| cost(&to)).min()?;
                let for_load = u128::from(cost) * u128::from(CPU_PPM) / u128::from(load);
                Some(((for_load, view.pages_all(), view.id()), index))
            })
            .collect();
        order.sort_unstable();
        order.into_iter().map(|(_, index)| index).collect()
    }

    /// Who is at home on a node and may get another home.
    fn at_home(&self, place: Place) -> impl Iterator<Item = usize> {
        let here = move |&index: &usize| self.seats[index] == Some(Seat::One(place));
        (0..self.views.len()).filter(here).filter(|&index| self.free[index])
    }

    /// The best other home for one of a busy node; `None` if no other is better. As long as the
    /// busy node has CPUs for all, its memory must be worth taking along.
    fn destination(&self, index: usize, from: Place) -> Option<Place> {
        let (view, load) = (&self.views[index], self.loads[index]);
        let was = self.books.busy(from);
        let busy = |to: Place| self.books.busy_with(view, load, to);
        let crowded = self.books.load(from) > self.prices.ground.cpus_ppm(from);
        others(view, from)
            .filter(|&to| ease(busy(to), self.prices.rules) < was)
            .filter(|&to| self.books.has_memory(view, to))
            .filter(|&to| crowded || self.pays(index, to))
            .min_by_key(|&to| (self.prices.home_ns(view, load, to), busy(to), to))
    }

    /// Whether an entity's memory is worth to be brought to another home.
    fn pays(&self, index: usize, to: Place) -> bool {
        let view = &self.views[index];
        let pages = self.prices.away(view, to);
        let loss_ns = self.prices.loss_ns(view, self.loads[index], to);
        pages == 0 || loss_ns > self.prices.move_ns(pages)
    }

    /// Moves homes off nodes that have long been too small for the memory of those at home, to
    /// nodes that have room for all of it.
    pub(super) fn make_room(&mut self, short: &[Place]) -> Vec<(usize, Reason)> {
        let mut moved = Vec::new();
        for &from in short {
            for index in self.lightest_first(from) {
                let Some(store) = self.prices.ground.store(from) else { break };
                if self.books.pages_beyond(store) == 0 {
                    break;
                }
                let Some(to) = self.roomier(index, from) else { continue };
                self.go(index, from, to);
                moved.push((index, Reason::MemoryShort));
            }
        }
        moved
    }

    /// A home with time and room for one whose home has no room for it.
    fn roomier(&self, index: usize, from: Place) -> Option<Place> {
        let (view, load) = (&self.views[index], self.loads[index]);
        let lost_ns = self.prices.loss_ns(view, load, from);
        let takes = |to: Place| {
            let pages = self.prices.away(view, to);
            let fits = self.room(to) >= pages && self.books.has_memory(view, to);
            fits && lost_ns > self.prices.move_ns(pages)
        };
        let lacks = self.prices.away(view, from) > self.room(from);
        others(view, from)
            .filter(|&to| lacks && self.books.has_time(view, load, to) && takes(to))
            .min_by_key(|&to| (self.prices.away(view, to), to))
    }

    fn room(&self, place: Place) -> u64 {
        let Prices { ground, rules } = self.prices;
        ground.store(place).map_or(0, |store| super::books::room(ground, rules, store))
    }

    /// Interleaves the memory of the entity that keeps a node's memory controller busy, if other
    /// controllers have time.
    pub(super) fn open_up(&mut self, choked: &[Place]) -> Vec<(usize, Reason)> {
        let mut moved = Vec::new();
        for &place in choked {
            let open = self.at_home(place).filter(|&index| self.open[index]);
            let most = open.max_by_key(|&index| (self.loads[index], index));
            let Some((index, memory)) = most.and_then(|index| self.wider(index, place)) else {
                continue;
            };
            self.seats[index] = Some(Seat::Interleave { threads: place, memory });
            moved.push((index, Reason::Bottleneck));
        }
        moved
    }

    /// Lets memory that is interleaved come back to these nodes, whose controllers have been enough
    /// for it for long enough: where there is room, and as far as that pays.
    pub(super) fn close_up(&mut self, eased: &[Place]) -> Vec<(usize, Reason)> {
        let mut moved = Vec::new();
        for index in (0..self.views.len()).filter(|&index| self.free[index]) {
            let Some(Seat::Interleave { threads, .. }) = self.seats[index] else { continue };
            let fits = self.prices.away(&self.views[index], threads) <= self.room(threads);
            if eased.contains(&threads) && fits && self.pays(index, threads) {
                self.seats[index] = Some(Seat::One(threads));
                moved.push((index, Reason::Eased));
            }
        }
        moved
    }

    /// On which nodes an entity's memory gets more bandwidth than on its home, if it makes most of
    /// the load there and the move pays. With a part of it on each of k nodes it waits for a k-th
    /// of the traffic; half of that is taken to be gained, as the rest is farther away.
    fn wider(&self, index: usize, place: Place) -> Option<(usize, Vec<Place>)> {
        let Prices { ground, rules } = self.prices;
        let (view, load) = (&self.views[index], self.loads[index]);
        let store = ground.store(place)?;
        let has_time = |other: Place| {
            let state = ground.state(other);
            let may = view.entity.may_hold.contains(ground.id(other));
            let may = may && !self.prices.is_short(other);
            let traffic_max = rules.traffic_ppm_max / 2;
            may && state.pages > 0 && ground.traffic(other).is_some_and(|ppm| ppm < traffic_max)
        };
        let wider = |&other: &Place| other == store || !ground.is_tier(other) && has_time(other);
        let memory: Vec<Place> = ground.places().filter(wider).collect();
        let parts = memory.len() as u64;
        let run_ns = u128::from(self.prices.run_ns(view, load));
        let gain_ns = run_ns * u128::from(parts - 1) / u128::from(2 * parts);
        let cost_ns = self.prices.move_ns(view.pages[store] / parts * (parts - 1));
        let most_of_load = 2 * load > self.books.load(place);
        let divides = view.pages[store] / parts >= ground.huge_pages();
        let pays = gain_ns > u128::from(cost_ns);
        (parts > 1 && most_of_load && divides && pays).then_some((index, memory))
    }

    fn go(&mut self, index: usize, from: Place, to: Place) {
        let (view, load, seat) = (&self.views[index], self.loads[index], Seat::One(to));
        self.books.leave(view, load, from);
        self.books.enter(view, load, &seat);
        self.seats[index] = Some(seat);
    }
}

fn others<'a>(view: &'a View, from: Place) -> impl Iterator<Item = Place> + 'a {
    view.homes.iter().copied().filter(move |&place| place != from)
}
