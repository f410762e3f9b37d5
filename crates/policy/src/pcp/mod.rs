//! How many free pages a CPU keeps for itself: `pcp_high`, and how many go at once.
//!
//! In front of the free pages of a node, its zone, each CPU has a list. Who finds what it needs in
//! the list does not take the zone's lock. A list that keeps much saves the lock, and strands
//! memory that others may need. A [`Tuner`] decides for one list; there are three:
//!
//! | tuner | `pcp_high` follows | after |
//! |---|---|---|
//! | [`Fixed`] | nothing | Linux 5.14 to 6.6 |
//! | [`Depth`] | how far allocating and freeing swing to and fro | an RFC of July 2023 |
//! | [`Events`] | what had to be taken from the zone | Linux 6.7 |
//!
//! Everything is counted in base pages: a run of order 9 is 512. Where an answer is no whole number
//! of runs, round it up, and give back runs of the order that came before others, as the kernel
//! does (`free_pcppages_bulk`).
//!
//! The kernel empties a list when runs of order 1 to 3 are freed one after another, because they
//! fragment its zone: [`Tuner::drained`]. Who does not fear that leaves it out.

mod depth;
mod events;
mod fixed;
#[cfg(test)]
mod tests;

pub use depth::{Depth, PERIOD_MS};
pub use events::Events;
pub use fixed::Fixed;

/// What bounds a list, in base pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How many go to or from the zone at once at least; 0 counts as 1. The kernel's is 63.
    pub batch: u32,
    /// What the list keeps until something is known; 0 if it is to keep nothing. At least four
    /// batches, as in the kernel, or the batches do not fit.
    pub high_default: u32,
    /// What the list keeps at most; less than `high_default` counts as `high_default`.
    pub high_max: u32,
}

impl Limits {
    fn is_disabled(&self) -> bool {
        self.high_default == 0
    }

    fn batch(&self) -> u32 {
        self.batch.max(1)
    }

    /// The nearest `pcp_high` that is allowed.
    fn clamp(&self, high: u32) -> u32 {
        if self.is_disabled() { 0 } else { high.min(self.high_max).max(self.high_default) }
    }
}

/// Decides how much one list keeps. It is told all that happens to the list, under the list's lock.
pub trait Tuner {
    /// Pages went from the list to a caller.
    fn allocated(&mut self, pages: u32);

    /// The list has nothing to give. How many to take from the zone, 1 or more; `count` are in the
    /// list, of other orders.
    fn refill(&mut self, limits: &Limits, count: u32) -> u32;

    /// Pages came to the list, which has `count` with them. How many to give back to the zone now,
    /// at most `count`. The time is any that does not run backwards.
    fn freed(&mut self, limits: &Limits, pages: u32, count: u32, now_ms: u64) -> u32;

    /// To be called once per [`PERIOD_MS`]. How many to give back now, at most `count`.
    fn tick(&mut self, limits: &Limits, count: u32, now_ms: u64) -> u32;

    /// Memory is short. How many to give back now, at most `count`.
    fn shrink(&mut self, limits: &Limits, count: u32) -> u32;

    /// How many of the `count` the kernel gives back with a run of 2 to 8 pages, whatever else is
    /// due; 0 if that is nothing special. To be asked before it is told that the run was
    /// [freed](Tuner::freed), with a `count` that has the run.
    fn drained(&self, limits: &Limits, count: u32) -> u32;

    /// The most that the list keeps.
    fn high(&self, limits: &Limits) -> u32;
}

/// Which tuner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tuning {
    /// Nothing changes it, as in Linux 5.14 to 6.6: [`Fixed`].
    Fixed,
    /// It follows how much is allocated and freed in turn: [`Depth`].
    #[default]
    Depth,
    /// It follows what had to be taken from the zone, as in Linux 6.7: [`Events`].
    Events,
}

impl Tuning {
    /// All of them, from the oldest to the newest.
    pub const ALL: [Self; 3] = [Self::Fixed, Self::Depth, Self::Events];

    /// The name as it is written in options and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fixed => "fixed",
            Self::Depth => "depth",
            Self::Events => "events",
        }
    }

    /// The one that has this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tuning| tuning.name() == name)
    }

    /// A tuner of this kind, for a list that nothing happened to.
    pub fn tuner(self, limits: &Limits) -> AnyTuner {
        match self {
            Self::Fixed => AnyTuner::Fixed(Fixed::default()),
            Self::Depth => AnyTuner::Depth(Depth::new(limits)),
            Self::Events => AnyTuner::Events(Events::new(limits)),
        }
    }
}

/// One of the tuners, chosen while the program runs.
#[derive(Clone, Debug)]
pub enum AnyTuner {
    /// `pcp_high` does not move.
    Fixed(Fixed),
    /// `pcp_high` follows the depth of allocating and freeing in turn.
    Depth(Depth),
    /// `pcp_high` follows what had to be taken from the zone.
    Events(Events),
}

/// The same call for each of the tuners.
macro_rules! each {
    ($any:expr, $tuner:ident => $call:expr) => {
        match $any {
            AnyTuner::Fixed($tuner) => $call,
            AnyTuner::Depth($tuner) => $call,
            AnyTuner::Events($tuner) => $call,
        }
    };
}

impl Tuner for AnyTuner {
    fn allocated(&mut self, pages: u32) {
        each!(self, tuner => tuner.allocated(pages));
    }

    fn refill(&mut self, limits: &Limits, count: u32) -> u32 {
        each!(self, tuner => tuner.refill(limits, count))
    }

    fn freed(&mut self, limits: &Limits, pages: u32, count: u32, now_ms: u64) -> u32 {
        each!(self, tuner => tuner.freed(limits, pages, count, now_ms))
    }

    fn tick(&mut self, limits: &Limits, count: u32, now_ms: u64) -> u32 {
        each!(self, tuner => tuner.tick(limits, count, now_ms))
    }

    fn shrink(&mut self, limits: &Limits, count: u32) -> u32 {
        each!(self, tuner => tuner.shrink(limits, count))
    }

    fn drained(&self, limits: &Limits, count: u32) -> u32 {
        each!(self, tuner => tuner.drained(limits, count))
    }

    fn high(&self, limits: &Limits) -> u32 {
        each!(self, tuner => tuner.high(limits))
    }
}

/// How many of the `count` are too many while memory is short: then four batches stay.
fn too_many_when_short(limits: &Limits, high: u32, count: u32) -> u32 {
    count.saturating_sub(high.min(limits.batch().saturating_mul(4)))
}

/// How many to give back at once when pages came, if more than enough are there: `wanted` at best,
/// one batch at least, and so few that a batch stays.
fn give_back(limits: &Limits, high: u32, wanted: u64, pages: u32, count: u32) -> u32 {
    let batch = limits.batch();
    let most = high.saturating_sub(batch);
    let bulk = u32::try_from(wanted).unwrap_or(u32::MAX).max(batch).min(most);
    // No less than what came, or lists with little room would grow: the kernel gives back whole
    // runs, and one page at least.
    bulk.max(pages).min(count)
}
