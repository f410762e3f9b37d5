//! What a run is measured by: counters, latencies, the time series, observers, sources of accesses,
//! and records of threads.

mod access_observers;
mod action_records;
mod counters;
mod cpu_time;
mod latencies;
mod observer;
mod recorder;
mod series;
mod thread_log;

pub use access_observers::{AccessObservers, OpenAccessSource};
pub use action_records::{HotplugRecord, MoveRecord};
pub use counters::Counters;
pub use cpu_time::CpuTimeKind;
pub use latencies::Latencies;
pub use observer::{CpuTurn, Observer};
pub use recorder::{Moment, Recorder, ResidencySnapshot};
pub use series::{NodePoint, Point};
pub use thread_log::ThreadLog;
