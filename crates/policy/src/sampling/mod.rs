//! Estimates the residency of a process without reading each of its pages.
//!
//! The pages of one mapping kind are concatenated to a [`PageSequence`] and cut into [`STRATA`]
//! strata of equal length. In every stratum addresses are drawn at random *without replacement*. So
//! each page is read at most once, a finished stratum is known exactly, and no layout (blocks,
//! interleave) can hide behind a pattern of the draw. A [`ResidencySampler`] returns the next pages
//! to read until the interval of every node's share meets the goal:
//!
//! 1. *pilot*: [`PILOT_PROBES`] probes measure the density (the part of the addresses that hold a
//!    page);
//! 2. *scan*, where the kernel can list populated ranges and that costs less than so many misses:
//!    the line is rebuilt from the populated ranges alone, and the pilot repeated;
//! 3. *explore*, where most probes still find nothing: the density of each stratum is measured, and
//!    probes are then allocated by Neyman's rule (length times the square root of the density), so
//!    that empty parts of a sparse heap cost little;
//! 4. *rounds* of probes, each of which multiplies the probes so far by at most [`ROUND_GROWTH`].
//!
//! The cost is per sample: it does not depend on the amount of memory.
//!
//! The interval is Wilson's (see [`interval`]): unlike the normal one it does not collapse when
//! every sample is on one node, which is the usual case. Its sample size is corrected for unequal
//! probes per stratum and for the part of the population that was read. The shares of several nodes
//! are several estimates at once, so from three nodes on the confidence of each is raised
//! (Bonferroni) until all of them hold together at 95 %.
//!
//! All arithmetic is in integers: shares in millionths (ppm), and the draw comes from the caller's
//! seed.

pub mod interval;
mod page_sequence;
mod sampler;
mod splitmix;
mod stratum;

pub use page_sequence::PageSequence;
pub use sampler::{
    Estimate, NodeEstimate, ResidencySampler, SamplingEnd, SamplingGoal, SamplingStep,
};
pub use splitmix::{Shuffle, SplitMix64};
pub use stratum::Stratum;

/// Strata in a line: enough that block placement adds no variance, few enough for 4 probes in each.
pub const STRATA: u64 = 64;

/// Probes of the pilot: if all are on one node, the kind is settled (189 are needed for 2 points).
pub const PILOT_PROBES: u64 = 4 * STRATA;

/// A line of at most this many pages is read completely, which is cheaper than sampling.
pub const CENSUS_PAGES: u64 = 2 * PILOT_PROBES;

/// The factor by which a round may multiply the probes so far, because their estimates are rough.
pub const ROUND_GROWTH: u64 = 16;
