//! Memory of this process that moves between nodes while it is in use.
//!
//! A [`Region`] is memory that a program lets the pager manage. To move pages, the pager takes them
//! out of sight with userfaultfd, copies them with threads near the destination, and brings them
//! back at their addresses. Threads that touch a page meanwhile wait for its batch. No write is
//! lost.
//!
//! The directories, each of which uses only those below it:
//!
//! | directory | what it holds |
//! |---|---|
//! | `handles` | what a program holds: pager, region, pins, page pool, own memory; fork(2) |
//! | `backend` | the two backends, userfaultfd and the kernel; the probe that chooses one |
//! | `fault` | the thread that serves page faults, and the thread that allocates for it |
//! | `migration` | jobs, lanes, the batches of a chunk, destination pages, retries, reports |
//! | `region` | the state of a region: its chunks, their claims, the parts that can move |
//! | `pool` | free pages: lists by CPU, zones by node, shadow slots |
//! | `sys` | system calls and memory: the only unsafe code |
//!
//! Files beside them serve several directories. `context` has what lanes and fault thread share.
//! `copier` copies pages. `sections` splits a mapping so that lanes do not contend in the kernel.
//! `pager_thread` starts threads. `bare_calls` times the kernel's calls alone, for a benchmark.
//! `process_mark` tells a process from its children. `chunk`, `page_bits`, `sync` and `error` use
//! no other file.

#[allow(unsafe_code, reason = "the room that maps memory and speaks to userfaultfd")]
mod sys;

mod backend;
mod bare_calls;
mod bare_moves;
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
mod process_mark;
mod region;
mod sections;
mod sync;

pub use backend::{Backend, Shortfall, UffdCapabilities, VisibleFaults};
pub use bare_calls::{BareCalls, BareTimes};
pub use bare_moves::BareMoves;
pub use chunk::PageSize;
pub use copier::{Copier, Memcpy, all as copiers};
pub use error::{Error, Result};
pub use handles::{
    OwnMemory, PagePool, Pager, PagerOptions, PinGuard, RangeListReport, RangeStatus, RangeTarget,
    Region,
};
pub use migration::{Budget, Cancel, Migration, MigrationReport, Progress, StepTimes, Supply};
pub use nodeward_mover::Selection;
pub use nodeward_policy::pcp::TunerKind;
pub use pager_thread::spawn_without_signals;
pub use pool::{ListStats, PageRun, PoolError, PoolOptions, PoolStats, RunRequest};
pub use region::{Arrive, ForkRule, Mode, Placement, RegionOptions};
