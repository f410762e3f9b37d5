//! Memory of this process that moves between nodes while it is in use.
//!
//! A [`Region`] is memory that a program lets the pager manage. To move pages, the pager takes them
//! out of sight with userfaultfd, copies them with threads near the destination, and brings them
//! back at their addresses. Threads that touch a page meanwhile wait for its batch. No write is
//! lost.

#[allow(unsafe_code, reason = "the room that maps memory and speaks to userfaultfd")]
mod sys;

mod allocation_thread;
mod backend;
mod batch_runner;
mod busy_cpus;
mod chunk_claims;
mod chunk_table;
mod claimed_chunk;
mod context;
mod copier;
mod error;
mod fault_handler;
mod fork_handlers;
mod headroom;
mod job;
mod kernel_backend;
mod kernel_batch;
mod lane_slots;
mod lanes;
mod options;
mod page_bits;
mod pager;
mod pool;
mod probe;
mod put_back_retry;
mod refusals;
mod region;
mod region_shared;
mod registration;
mod report;
mod residency;
mod sections;
mod shadow_slot;
mod stop_signal;
mod sync;
mod uffd_ops;
mod verify_node;

pub use backend::Backend;
pub use copier::{Copier, Memcpy, all as copiers};
pub use error::{Error, Result};
pub use nodeward_policy::pcp::TunerKind;
pub use options::{
    Budget, Cancel, ForkRule, Migration, Mode, PageSize, PagerOptions, Placement, Progress,
    RegionOptions, Supply,
};
pub use pager::Pager;
pub use pool::{ListStats, PagePool, PageRun, PoolError, PoolOptions, PoolStats, RunRequest};
pub use probe::{Shortfall, UffdCapabilities, VisibleFaults};
pub use region::{PinGuard, Region};
pub use report::{MigrationReport, StepTimes};

/// Size of a chunk, of a slot and of a huge page: 2 MiB. A chunk is the unit that is claimed.
const CHUNK_BYTES: usize = 2 << 20;
