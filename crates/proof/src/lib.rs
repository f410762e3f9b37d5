//! Proves that managed memory loses nothing while it moves, and measures how fast it moves.
//!
//! Threads write and check every word of a region ([`Pattern`], [`under_load`]) while it is
//! migrated. Histograms record how long they waited ([`Stalls`]). Speeds are ratios to memcpy in
//! the same run ([`Buffers`], [`measure`]). [`soak`] moves a region to and fro by all methods until
//! a given number of bytes has moved. [`measure_pool`] measures page pools against the kernel and
//! other allocators.

#![forbid(unsafe_code)]

mod dice;
mod findings;
mod load;
mod measure;
mod memcpy;
mod numbers;
mod pattern;
mod pool;
mod progress;
mod soak;
mod stalls;
mod subject;

pub use dice::Dice;
pub use findings::{Findings, Wrong};
pub use load::{Load, LoadReport, Reins, under_load};
pub use measure::{
    Cell, Column, Extra, KernelCell, LanesCell, LazyCell, Plan, Row, SpentShares, StallCell, Vmas,
    WriterRate, measure, page_name,
};
pub use memcpy::Buffers;
pub use numbers::median;
pub use pattern::Pattern;
pub use pool::{
    Contender, Course, Look, PeriodVisits, PoolCell, PoolPlan, PoolReport, PureFlow, Ratio,
    measure_pool,
};
pub use progress::Progress;
pub use soak::{SoakPlan, SoakReport, soak};
pub use stalls::{Stalls, StallsReport, Times, Touches};
pub use subject::{Error, Nodes, Sample, Subject, SubjectOptions};
