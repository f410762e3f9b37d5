//! One round of decisions: who is at home where, who gets another home, and what follows from it.

use nodeward_model::NodeId;

use super::books::{Books, CPU_PPM, ease};
use super::ground::Place;
use super::memory::Hauler;
use super::plan::{Decision, Plan, Verdict};
use super::price::Prices;
use super::reason::Reason;
use super::seat::{Kept, Seat};
use super::settle::settle;
use super::tell::Teller;
use super::threads::gather;
use super::view::View;
use super::{Homes, even};
use crate::damping::{DOUBLINGS_MAX, Debounces};

/// Of the memory on a node this part elsewhere does not count.
const FEW: u64 = 16;

/// What is known and decided in a round. All lists have an entry for each entity.
pub(super) struct Round<'a> {
    prices: Prices<'a>,
    views: &'a [View<'a>],
    /// Loads, as the mean of the last looks.
    loads: &'a [u64],
    elapsed_ns: u64,
    seats: Vec<Option<Seat>>,
    verdicts: Vec<(Verdict, Reason)>,
}

impl<'a> Round<'a> {
    pub(super) fn new(
        prices: Prices<'a>,
        views: &'a [View<'a>],
        loads: &'a [u64],
        elapsed_ns: u64,
    ) -> Self {
        let seats = views.iter().map(|_| None).collect();
        let left = |view: &View| (Verdict::Left, view.refusal.unwrap_or(Reason::TooYoung));
        let verdicts = views.iter().map(left).collect();
        Self { prices, views, loads, elapsed_ns, seats, verdicts }
    }

    pub(super) fn decide(mut self, homes: &mut Homes) -> Plan {
        let Prices { ground, rules } = self.prices;
        let mut books = Books::new(ground, rules, self.views, self.loads);
        let homeless = self.sit_down(homes, &mut books);
        let settled = settle(&homeless, self.views, self.loads, self.prices, &mut books);
        let mut changed: Vec<(usize, Reason)> = Vec::new();
        if !settled.is_empty() {
            homes.relief.forget();
        }
        for (index, seat, reason) in settled {
            self.seats[index] = Some(seat);
            changed.push((index, reason));
        }
        changed.extend(self.even_out(homes, &mut books));
        for (index, reason) in changed {
            self.keep(index, reason, homes);
        }
        self.finish(homes, &books)
    }

    /// Everyone whose home still will do sits there. Returns who has none: those on one node
    /// before those on several, which take what is left.
    fn sit_down(&mut self, homes: &Homes, books: &mut Books) -> Vec<usize> {
        let mut homeless = Vec::new();
        let mut spread = Vec::new();
        for (index, view) in self.views.iter().enumerate() {
            let kept = homes.kept.get(&view.id());
            let narrow = view.refusal == Some(Reason::NarrowAffinity) && kept.is_some();
            if view.refusal.is_some() && !narrow {
                continue;
            }
            if kept.is_none() && view.entity.run_ns < self.prices.rules.run_ns_min {
                continue;
            }
            match kept.and_then(|kept| self.seat_of(index, kept, books)) {
                None if view.homes.is_empty() => {}
                None => homeless.push(index),
                Some((seat @ Seat::Spread(_), why)) => spread.push((index, seat, why)),
                Some((seat, why)) => self.take(index, seat, why, books),
            }
        }
        for (index, seat, why) in spread {
            match self.gathers(index, &seat, books) {
                true => homeless.push(index),
                false => self.take(index, seat, why, books),
            }
        }
        homeless
    }

    /// Whether an entity on several nodes fits the one of them where nearly all its memory is. Only
    /// threads would move, so it need not wait; that it leaves again must wait the longer.
    fn gathers(&self, index: usize, seat: &Seat, books: &Books) -> bool {
        let (ground, view) = (self.prices.ground, &self.views[index]);
        seat.threads().iter().any(|&place| {
            let there = ground.store(place).map_or(0, |store| view.pages[store]);
            let is_there = view.pages_all() > 0 && view.pages_all() - there <= there / FEW;
            is_there && !view.is_parallel && view.load_ppm <= books.idle(place)
        })
    }

    fn take(&mut self, index: usize, seat: Seat, why: Reason, books: &mut Books) {
        books.enter(&self.views[index], self.loads[index], &seat);
        self.verdicts[index] = (Verdict::Stays, why);
        self.seats[index] = Some(seat);
    }

    /// The seat of a home; `None` if it no longer will do: it is gone, or the entity has grown too
    /// large for it, or so small, or of one busy thread, that it fits a part of it.
    fn seat_of(&self, index: usize, kept: &Kept, books: &Books) -> Option<(Seat, Reason)> {
        let (ground, view) = (self.prices.ground, &self.views[index]);
        let seat = Seat::of(&kept.home, view, ground)?;
        let load = self.loads[index];
        let twice = |ppm: u64| ease(ease(ppm, self.prices.rules), self.prices.rules);
        let pages = view.pages_all();
        let memory = |place: Place| ground.store(place).map_or(0, |store| books.capacity(store));
        let outgrown = match &seat {
            Seat::One(place) => view.is_parallel && load > twice(ground.cpus_ppm(*place)),
            Seat::Spread(places) => places.iter().all(|&place| {
                let is_one = !view.is_parallel && load <= ease(CPU_PPM, self.prices.rules);
                let is_small = is_one || twice(load) <= ground.cpus_ppm(place);
                is_small && twice(pages) < memory(place)
            }),
            Seat::Interleave { .. } => false,
        };
        (kept.moves.waits() || !outgrown).then_some((seat, kept.why))
    }

    /// Moves homes off nodes that were too busy, too full or choked for long enough.
    fn even_out(&mut self, homes: &mut Homes, books: &mut Books<'a>) -> Vec<(usize, Reason)> {
        let Prices { ground, rules } = self.prices;
        let (ns, enough_ns) = (self.elapsed_ns, rules.patience_ns);
        let lasting = |states: &mut Debounces<NodeId>, is_so: &dyn Fn(Place) -> bool| {
            let so = ground.places().map(|place| (ground.id(place), is_so(place)));
            states.observe(ns, enough_ns, so);
            let has_lasted = |&place: &Place| states.has_lasted(ground.id(place), enough_ns);
            ground.places().filter(has_lasted).collect::<Vec<Place>>()
        };
        let is_busy = |place: Place| books.load(place) > books.limit(place);
        let busy = lasting(&mut homes.busy, &is_busy);
        let beyond = |place: Place| ground.store(place).map_or(0, |s| books.pages_beyond(s));
        let short = lasting(&mut homes.short, &|place| beyond(place) > 0);
        let traffic = |place: Place| ground.store(place).and_then(|store| ground.traffic(store));
        let is_choked =
            |place: Place| traffic(place).is_some_and(|ppm| ppm >= rules.traffic_ppm_max);
        let choked = lasting(&mut homes.choked, &is_choked);
        let eased = lasting(&mut homes.eased, &|place| self.is_eased(place));
        let kept = |view: &View| homes.kept.get(&view.id());
        let is_free = |view: &View| kept(view).is_some_and(|kept| !kept.moves.waits());
        let may_open = |view: &View| kept(view).is_some_and(|kept| !kept.opens.waits());
        let free: Vec<bool> = self.views.iter().map(is_free).collect();
        let open: Vec<bool> = self.views.iter().map(may_open).collect();
        let mut evener = even::Evener {
            prices: self.prices,
            views: self.views,
            loads: self.loads,
            free: &free,
            open: &open,
            books,
            seats: &mut self.seats,
        };
        let mut moved = match busy.is_empty() {
            true => Vec::new(),
            false => evener.relieve_if_that_helps(&busy, &mut homes.relief),
        };
        moved.extend(evener.make_room(&short));
        moved.extend(evener.open_up(&choked));
        moved.extend(evener.close_up(&eased));
        moved
    }

    /// Whether memory is interleaved for this node's controller that could do it alone: all that
    /// the controllers deliver now would be less than half of what makes one a bottleneck. So what
    /// is interleaved for its traffic is not eased by being so.
    fn is_eased(&self, place: Place) -> bool {
        let Prices { ground, rules } = self.prices;
        let all = |memory: &[Place]| -> Option<u64> {
            memory.iter().map(|&store| ground.traffic(store).map(u64::from)).sum()
        };
        let few = |ppm: u64| 2 * ppm < u64::from(rules.traffic_ppm_max);
        self.seats.iter().flatten().any(|seat| match seat {
            Seat::Interleave { threads, memory } if *threads == place => {
                all(memory).is_some_and(few)
            }
            _ => false,
        })
    }

    /// Notes the new home of an entity, if it is another.
    fn keep(&mut self, index: usize, reason: Reason, homes: &mut Homes) {
        let Prices { ground, rules } = self.prices;
        let (id, load) = (self.views[index].id(), self.loads[index]);
        let Some(home) = self.seats[index].as_ref().map(|seat| seat.home(ground)) else { return };
        let first = !homes.kept.contains_key(&id);
        let kept = homes.kept.entry(id).or_insert_with(|| Kept::new(home.clone(), reason, load));
        let moves = kept.home != home;
        let displaced = moves && Seat::of(&kept.home, &self.views[index], ground).is_none();
        if moves {
            kept.memory.elsewhere();
        }
        if moves || first {
            kept.home = home;
            kept.why = if displaced { Reason::Displaced } else { reason };
            kept.moves.start(rules.home_wait_ns, DOUBLINGS_MAX);
            if reason == Reason::Eased {
                kept.opens.start(rules.open_wait_ns(), DOUBLINGS_MAX);
            }
        }
        let verdict = match (first, moves) {
            (true, _) => Verdict::Settles,
            (_, true) => Verdict::Moves,
            _ => Verdict::Stays,
        };
        self.verdicts[index] = (verdict, kept.why);
    }

    fn finish(self, homes: &mut Homes, books: &Books) -> Plan {
        let Prices { ground, rules } = self.prices;
        let (nudges, gatherings) = gather(ground, rules, self.views, &self.seats);
        let hauler = Hauler {
            prices: self.prices,
            views: self.views,
            loads: self.loads,
            seats: &self.seats,
            gatherings: &gatherings,
            kept: &mut homes.kept,
        };
        let (moves, hauls) = hauler.haul();
        let teller = Teller {
            prices: self.prices,
            views: self.views,
            loads: self.loads,
            seats: &self.seats,
            verdicts: &self.verdicts,
            gatherings: &gatherings,
            hauls: &hauls,
            kept: &homes.kept,
            books,
        };
        let decisions = teller.decisions();
        let settled =
            moves.is_empty() && !decisions.iter().any(is_open) && !homes.is_restless(rules);
        Plan { homes: teller.homes(), nudges, moves, decisions, nodes: teller.sums(), settled }
    }
}

/// Whether an entity has just got a home, or its memory waits for something that time brings.
fn is_open(decision: &Decision) -> bool {
    matches!(decision.verdict, Verdict::Settles | Verdict::Moves)
        || matches!(decision.memory, Some(Reason::Waits | Reason::NotMeasured))
}
