//! Memory of this process that moves between nodes while it is in use.
//!
//! A [`Region`] is memory that a program lets the pager manage. To move pages, the pager takes them
//! out of sight with userfaultfd, copies them with threads near the destination, and brings them
//! back at their addresses. Threads that touch a page meanwhile wait for its batch. No write is
//! lost.

#[allow(unsafe_code, reason = "the room that maps memory and speaks to userfaultfd")]
mod sys;

mod backend;
mod chunk;
mod context;
mod copier;
mod error;
mod fault;
mod handles;
mod migration;
mod page_bits;
mod pager_thread;
mod pool;
mod region;
mod sections;
mod sync;

pub use backend::{Backend, Shortfall, UffdCapabilities, VisibleFaults};
pub use chunk::PageSize;
pub use copier::{Copier, Memcpy, all as copiers};
pub use error::{Error, Result};
pub use handles::{Pager, PagerOptions, PinGuard, Region};
pub use migration::{Budget, Cancel, Migration, MigrationReport, Progress, StepTimes, Supply};
pub use nodeward_policy::pcp::TunerKind;
pub use pool::{ListStats, PagePool, PageRun, PoolError, PoolOptions, PoolStats, RunRequest};
pub use region::{ForkRule, Mode, Placement, RegionOptions};
