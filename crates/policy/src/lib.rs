//! Decisions as pure functions of values: no clock, no randomness, no IO, no log.

#![forbid(unsafe_code)]

pub mod advice;
pub mod break_even;
pub mod cache_headroom;
pub mod damping;
pub mod evacuation;
pub mod exchange;
pub mod folio_plan;
pub mod hot;
pub mod huge_page_pause;
pub mod kernel_moves;
pub mod move_method;
pub mod pacing;
pub mod pcp;
pub mod placement;
pub mod ramp;
pub mod rank;
pub mod sampling;
pub mod spread;
pub mod stragglers;
pub mod workers;
