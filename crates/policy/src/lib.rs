//! Decisions as pure functions of values: no clock, no randomness, no IO, no log.

#![forbid(unsafe_code)]

pub mod break_even;
pub mod damping;
pub mod exchange;
pub mod hot;
pub mod pacing;
pub mod pcp;
pub mod placement;
pub mod plan;
pub mod ramp;
pub mod rank;
pub mod room;
pub mod roster;
pub mod sampling;
pub mod ways;
pub mod workers;
