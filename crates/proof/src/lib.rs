//! Proves that managed memory loses nothing while it moves, and measures how fast it moves.
//!
//! Threads write and check every word of a region ([`Pattern`], [`under_load`]) while it is
//! migrated. Histograms record how long they waited ([`StallTimes`]). Speeds are ratios to memcpy
//! in the same run ([`CopyBuffers`], [`measure`]). [`soak`] moves a region to and fro by all
//! methods until a given number of bytes has moved. [`measure_pool`] measures page pools against
//! the kernel and other allocators, [`measure_calls`] what a call of a region costs,
//! [`measure_limits`] the calls of the kernel that no migration can do without, and
//! [`line_latencies`] how long nodes wait for each other's memory.

mod calls;
mod findings;
mod limits;
mod line_latency;
mod load;
mod measure;
mod measured_region;
mod memcpy;
mod numbers;
mod pattern;
#[cfg(feature = "peers")]
mod peers;
mod pool;
mod progress;
mod soak;
mod stall_times;
mod word_value;
mod xorshift;

pub use calls::{
    BareCell, CallCell, CallSetting, CallTimes, CallsPlan, CallsReport, RegionCall, measure_calls,
};
pub use findings::{Findings, WrongWord};
pub use limits::{BareCall, LimitCell, LimitsPlan, bytes_per_s, measure_limits};
pub use line_latency::line_latencies;
pub use load::{LoadControl, LoadReport, LoadSpec, under_load};
pub use measure::{
    ArrivalRatio, BareRatio, BenchRow, Column, Extra, HugeArrivalCell, KernelCell, LanesCell,
    LazyCell, MeasurePlan, MemcpyCell, StallCell, StepTimeShares, VmaCount, WriterRate, measure,
    page_name,
};
pub use measured_region::{
    Error, MeasuredRegion, MeasuredRegionOptions, MigrationSample, NodeRoute,
};
pub use memcpy::CopyBuffers;
pub use numbers::median;
pub use pattern::Pattern;
pub use pool::{
    PeriodVisits, PoolCell, PoolContender, PoolPlan, PoolReport, PoolSample, PoolTimeline,
    PureFlow, Ratio, measure_pool,
};
pub use progress::BenchProgress;
pub use soak::{SoakPlan, SoakReport, soak};
pub use stall_times::{StallTimes, StallsReport, TimeQuantiles, TouchTimer};
pub use xorshift::Xorshift64;
