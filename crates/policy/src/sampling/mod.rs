//! How to learn where the pages of a process are without looking at each of them.
//!
//! The pages of one mapping kind are laid end to end as a [`Line`], cut into [`STRATA`] strata of
//! equal length. In every stratum addresses are drawn at random *without replacement*, so that each
//! page can be seen at most once, a finished stratum is known exactly, and no layout (blocks,
//! interleave) can hide behind a pattern of the draw. A [`Survey`] says what to look at next until
//! the interval of every node's share is within the goal:
//!
//! 1. *pilot*: [`PILOT_PROBES`] probes tell the density (how many addresses hold a page at all);
//! 2. *scan*, where the kernel can list populated ranges and that costs less than missing so often:
//!    the line is laid again from the populated ranges alone, and the pilot repeated;
//! 3. *explore*, where most probes still find nothing: the density of each stratum is learnt, and
//!    probes then go to the strata by Neyman's rule (length times the root of the density), so that
//!    empty parts of a sparse heap cost little;
//! 4. *rounds* of probes, each at most [`ROUND_GROWTH`] times as many as before it.
//!
//! Cost is per sample: it does not depend on how much memory there is.
//!
//! The interval is Wilson's (see [`interval`]): unlike the normal one it does not collapse when
//! every sample lies on one node, which is the usual case. Its sample size is corrected for unequal
//! probes per stratum and for the share of the population that was seen. Nodes are several answers
//! at once, so that from three nodes on the confidence of each is raised (Bonferroni) until all of
//! them hold together at 95 %.
//!
//! Everything is integers: shares in millionths (ppm), and the draw comes from the caller's seed.

pub mod interval;
mod line;
mod stratum;
mod stream;
mod survey;

pub use line::Line;
pub use stratum::Stratum;
pub use stream::{Shuffle, Stream};
pub use survey::{End, Estimate, Goal, NodeEstimate, Step, Survey};

/// Strata in a line: enough that block placement costs nothing, few enough for 4 probes in each.
pub const STRATA: u64 = 64;

/// Probes of the pilot: all of them on one node settle a kind (189 are needed for 2 points).
pub const PILOT_PROBES: u64 = 4 * STRATA;

/// A line of at most so many pages is looked at whole: cheaper than being clever.
pub const CENSUS_PAGES: u64 = 2 * PILOT_PROBES;

/// A round makes the probes so far at most so many times as many: what they told is still rough.
pub const ROUND_GROWTH: u64 = 16;
