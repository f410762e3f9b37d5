//! The number of free pages that a CPU keeps in its own list (`pcp_high`), and the number that
//! moves at once.
//!
//! Each CPU has a list in front of the free pages of a node, its zone. An allocation that the list
//! can serve does not take the zone's lock. A long list saves the lock, and strands memory that
//! others may need. A [`Tuner`] decides for one list; there are three:
//!
//! | tuner | `pcp_high` follows | after |
//! |---|---|---|
//! | [`FixedTuner`] | nothing | Linux 5.14 to 6.6 |
//! | [`DepthTuner`] | the depth to which the CPU allocates and frees in turn | RFC of July 2023 |
//! | [`EventsTuner`] | the pages that had to be taken from the zone | Linux 6.7 |
//!
//! A kernel that does not tune has one setting for all lists: [`FractionTuner`] chooses it from the
//! depths of all CPUs.
//!
//! Everything is counted in base pages: a run of order 9 is 512. Where a result is no whole number
//! of runs, round it up, and give back runs of the order that came before others, as the kernel
//! does (`free_pcppages_bulk`).
//!
//! The kernel empties a list when runs of order 1 to 3 are freed one after another, because they
//! fragment its zone: [`Tuner::drain_count`]. A caller that accepts fragmentation leaves it out.

mod counting;
mod depth;
mod depth_period;
mod events;
mod fixed;
mod fraction;
mod limits;
#[cfg(test)]
mod tests;
mod tuner;

pub use counting::CountingTurns;
pub use depth::{DepthTuner, PERIOD_MS};
pub use depth_period::{DepthAverages, DepthPeriod};
pub use events::EventsTuner;
pub use fixed::FixedTuner;
pub use fraction::{
    FractionBounds, FractionTuner, KERNEL_FRACTION_MIN, ListDemand, SplitZone, fraction_for,
    saved_visits,
};
pub use limits::ListLimits;
pub use tuner::Tuner;

/// A kind of tuner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TunerKind {
    /// `pcp_high` is constant, as in Linux 5.14 to 6.6: [`FixedTuner`].
    Fixed,
    /// The limit follows the depth to which the CPU allocates and frees in turn: [`DepthTuner`].
    #[default]
    Depth,
    /// The limit follows the pages that had to be taken from the zone, as in Linux 6.7:
    /// [`EventsTuner`].
    Events,
}

impl TunerKind {
    /// All kinds, from the oldest to the newest.
    pub const ALL: [Self; 3] = [Self::Fixed, Self::Depth, Self::Events];

    /// Returns the name in options and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fixed => "fixed",
            Self::Depth => "depth",
            Self::Events => "events",
        }
    }

    /// Returns the kind with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tuning| tuning.name() == name)
    }

    /// Returns a tuner of this kind, for a list without history.
    pub fn tuner(self, limits: &ListLimits) -> AnyTuner {
        match self {
            Self::Fixed => AnyTuner::Fixed(FixedTuner::default()),
            Self::Depth => AnyTuner::Depth(DepthTuner::new(limits)),
            Self::Events => AnyTuner::Events(EventsTuner::new(limits)),
        }
    }
}

/// One of the tuners, chosen at run time.
#[derive(Clone, Debug)]
pub enum AnyTuner {
    /// `pcp_high` is constant.
    Fixed(FixedTuner),
    /// `pcp_high` follows the depth to which the CPU allocates and frees in turn.
    Depth(DepthTuner),
    /// `pcp_high` follows the pages that had to be taken from the zone.
    Events(EventsTuner),
}

/// Makes the same call to each of the tuners.
macro_rules! dispatch {
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
        dispatch!(self, tuner => tuner.allocated(pages));
    }

    fn refill(&mut self, limits: &ListLimits, count: u32) -> u32 {
        dispatch!(self, tuner => tuner.refill(limits, count))
    }

    fn freed(&mut self, limits: &ListLimits, pages: u32, count: u32, now_ms: u64) -> u32 {
        dispatch!(self, tuner => tuner.freed(limits, pages, count, now_ms))
    }

    fn tick(&mut self, limits: &ListLimits, count: u32, now_ms: u64) -> u32 {
        dispatch!(self, tuner => tuner.tick(limits, count, now_ms))
    }

    fn shrink(&mut self, limits: &ListLimits, count: u32) -> u32 {
        dispatch!(self, tuner => tuner.shrink(limits, count))
    }

    fn drain_count(&self, limits: &ListLimits, count: u32) -> u32 {
        dispatch!(self, tuner => tuner.drain_count(limits, count))
    }

    fn high(&self, limits: &ListLimits) -> u32 {
        dispatch!(self, tuner => tuner.high(limits))
    }
}
