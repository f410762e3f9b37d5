//! What it costs to have memory elsewhere, and to bring it home.
//!
//! Of each second that a thread runs it waits for memory for some part, as long as that is near
//! ([`Rules::memory_ppm`]). Memory at distance 16 makes it wait 1.6 times as long: at a part of
//! 30 % that is 0.18 s for each second of run time. Accesses are taken to go evenly to
//! all its pages.
//!
//! How long that goes on nobody knows. Of processes that ran for a time `t` about `t / (t + s)` run
//! for `s` more, however long `t` is (Harchol-Balter and Downey 1997). So what they run yet, of the
//! next `S` at most, is `t * ln(1 + S / t)` in the mean.

use super::ground::{Ground, Place};
use super::rules::Rules;
use super::view::View;

const WHOLE_PPM: u128 = 1_000_000;
const DISTANCE_LOCAL: u128 = 10;
/// No longer life is counted on: ten minutes.
const LIFE_NS_MAX: u128 = 600_000_000_000;

/// What things cost on a machine.
#[derive(Clone, Copy)]
pub(super) struct Prices<'a> {
    pub(super) ground: &'a Ground,
    pub(super) rules: &'a Rules,
}

impl Prices<'_> {
    /// What an entity loses within the horizon if all its threads run on `home` and its memory
    /// stays, in nanoseconds.
    pub(super) fn loss_ns(&self, view: &View, load_ppm: u64, home: Place) -> u64 {
        let Some(store) = self.ground.store(home) else { return u64::MAX };
        let near = self.ground.far(home, store);
        let farther = |place: Place| u128::from(self.ground.far(home, place).saturating_sub(near));
        let lost = self
            .homeless(view, home, &view.pages)
            .map(|(place, pages)| u128::from(pages) * farther(place));
        self.time_ns(view, load_ppm, lost.sum())
    }

    /// What a move of `pages` pages between two nodes saves within the horizon, with
    /// threads where `threads` says, in nanoseconds. Nothing if it is a loss.
    pub(super) fn saved_ns(&self, view: &View, threads: &Threads, way: Way, pages: u64) -> u64 {
        let gain = |(place, &load): (Place, &u64)| {
            let far = |to| i128::from(self.ground.far(place, to));
            i128::from(load) * (far(way.from) - far(way.to))
        };
        let gain: i128 = threads.by_place.iter().enumerate().map(gain).sum();
        let all = u128::from(threads.by_place.iter().sum::<u64>()).max(1);
        let gain = u128::try_from(gain).unwrap_or(0);
        self.time_ns(view, threads.load_ppm, u128::from(pages) * gain / all)
    }

    /// Time within the horizon, for a sum of pages times how much farther they are.
    fn time_ns(&self, view: &View, load_ppm: u64, pages_farther: u128) -> u64 {
        let all = u128::from(view.pages_everywhere.max(1));
        let longer_ppm = pages_farther * WHOLE_PPM / (DISTANCE_LOCAL * all);
        let run_ns = u128::from(self.run_ns(view, load_ppm));
        let waits_ns = run_ns * u128::from(self.rules.memory_ppm) / WHOLE_PPM;
        narrow(waits_ns.saturating_mul(longer_ppm) / WHOLE_PPM)
    }

    /// How long an entity's threads run within the horizon, in nanoseconds of CPU time.
    pub(super) fn run_ns(&self, view: &View, load_ppm: u64) -> u64 {
        let horizon_ns = u128::from(self.horizon_ns(view, load_ppm));
        narrow(horizon_ns * ran_ppm(view, load_ppm) / WHOLE_PPM)
    }

    /// For how long an entity is expected to go on, in nanoseconds.
    pub(super) fn horizon_ns(&self, view: &View, load_ppm: u64) -> u64 {
        let Rules { horizon_ns, horizon_ns_max, .. } = *self.rules;
        let age_ns = u128::from(view.entity.run_ns) * WHOLE_PPM / ran_ppm(view, load_ppm).max(1);
        narrow(life_ns(age_ns)).clamp(horizon_ns, horizon_ns_max.max(horizon_ns))
    }

    /// Whether a node is short of memory.
    pub(super) fn is_short(&self, place: Place) -> bool {
        self.ground.state(place).is_short(self.rules)
    }

    /// What it costs to move pages, in nanoseconds.
    pub(super) fn move_ns(&self, pages: u64) -> u64 {
        self.rules.move_ns(pages)
    }

    /// What it costs to be at home on `home`: what is lost, or to bring the memory there if that
    /// is less.
    pub(super) fn home_ns(&self, view: &View, load_ppm: u64, home: Place) -> u64 {
        match self.away(view, home) {
            0 => 0,
            pages => self.loss_ns(view, load_ppm, home).min(self.move_ns(pages)),
        }
    }

    /// Pages that would have to move if `home` was the home.
    pub(super) fn away(&self, view: &View, home: Place) -> u64 {
        self.homeless(view, home, &view.movable).map(|(_, pages)| pages).sum()
    }

    /// What of `pages` is neither where memory of `home` belongs nor on a tier: there it was put
    /// because it is seldom used.
    pub(super) fn homeless<'b>(
        &'b self,
        view: &'b View,
        home: Place,
        pages: &'b [u64],
    ) -> impl Iterator<Item = (Place, u64)> + 'b {
        debug_assert_eq!(pages.len(), view.pages.len());
        let store = self.ground.store(home);
        let away = move |&(place, &pages): &(Place, &u64)| {
            pages > 0 && Some(place) != store && !self.ground.is_tier(place)
        };
        pages.iter().enumerate().filter(away).map(|(place, &pages)| (place, pages))
    }
}

/// Where an entity's load is.
pub(super) struct Threads<'a> {
    /// How much it is, in millionths of a CPU, as the mean of the last looks.
    pub(super) load_ppm: u64,
    /// In what proportion it is on each node.
    pub(super) by_place: &'a [u64],
}

/// From a node to another.
#[derive(Clone, Copy)]
pub(super) struct Way {
    pub(super) from: Place,
    pub(super) to: Place,
}

/// How much an entity runs, in millionths of a CPU.
fn ran_ppm(view: &View, load_ppm: u64) -> u128 {
    u128::from(load_ppm) * u128::from(view.ran_ppm) / WHOLE_PPM
}

/// For how long what is so old goes on in the mean. The logarithm is linear between powers of two,
/// so too small by 6 % of its base at most.
fn life_ns(age_ns: u128) -> u128 {
    /// ln 2 in 2^-16.
    const LN_2: u128 = 45_426;
    const ONE: u128 = 1 << 16;
    let age_ns = age_ns.max(1);
    let ratio = LIFE_NS_MAX * ONE / age_ns + ONE;
    let whole = u128::from(ratio.ilog2());
    let log_2 = (whole - 16) * ONE + ((ratio * ONE) >> whole) - ONE;
    age_ns.saturating_mul(log_2 * LN_2 / ONE) / ONE
}

fn narrow(number: u128) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
