//! What a run is measured by: counters, latencies, the time series, and observers.

mod counters;
mod latencies;
mod observer;
mod series;

pub use counters::Counters;
pub use latencies::Latencies;
pub use observer::{CpuTurn, Observer};
pub use series::{NodePoint, Point, Series};
