//! Reads files that name pages: lists of addresses, counts of accesses, samples of perf.
//!
//! All input is untrusted. A reader takes any `BufRead`, streams, and uses a bounded amount of
//! memory however long the input is. Invalid input is one error with the line or the byte and the
//! expected content. Nothing here knows a machine: addresses are numbers, CPUs are ids.

#![forbid(unsafe_code)]

pub mod addresses;
pub mod counts;
pub mod perf_data;
pub mod perf_text;
pub mod source;

mod error;
mod fields;
mod limits;
mod lines;
mod peek;
mod sample;

pub use error::Error;
pub use peek::PeekedSource;
pub use sample::{PerfSample, UnusableSamples};
pub use source::{SampleFormat, open};
