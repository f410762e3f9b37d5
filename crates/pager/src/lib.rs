//! Memory of this process that moves between nodes while it is in use.
//!
//! A [`Region`] is memory that a program lets the pager manage. To move pages, the pager takes them
//! out of sight with userfaultfd, copies them with threads near the destination, and brings them
//! back at their addresses. Threads that touch a page meanwhile wait for its batch. No write is
//! lost.

#[allow(unsafe_code, reason = "the room that maps memory and speaks to userfaultfd")]
mod sys;

mod busy;
mod by_kernel;
mod carrier;
mod chunk;
mod chunk_table;
mod copier;
mod core;
mod desk;
mod error;
mod fork;
mod handler;
mod hands;
mod job;
mod kernel;
mod landing;
mod lanes;
mod options;
mod page_bits;
mod pager;
mod patience;
mod pool;
mod porter;
mod probe;
mod refusals;
mod region;
mod report;
mod residency;
mod road;
mod rooms;
mod sections;
mod shadow;
mod shop;
mod stock;
mod stop;
mod sync;
mod watched;

pub use copier::{Copier, Memcpy, all as copiers};
pub use error::{Error, Result};
pub use nodeward_policy::pcp::Tuning;
pub use options::{
    Budget, Cancel, ForkRule, Migration, Mode, PageSize, PagerOptions, Placement, Progress,
    RegionOptions, Supply,
};
pub use pager::Pager;
pub use pool::{ListStats, PagePool, PageRun, PoolError, PoolOptions, PoolStats, Wanted};
pub use probe::{Capabilities, Faults, Shortfall};
pub use region::{PinGuard, Region};
pub use report::{Report, Spent};
pub use road::Road;

/// Size of a chunk, of a slot and of a huge page: 2 MiB. A chunk is the unit that is claimed.
const CHUNK_BYTES: usize = 2 << 20;
