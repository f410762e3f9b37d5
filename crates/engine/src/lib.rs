//! The round: observe, decide, migrate, verify.

#![forbid(unsafe_code)]

pub mod residency;
