//! Migrations by the pager itself.
//!
//! A call makes a job of one task for each chunk. Lanes take the tasks; a small one is done by the
//! calling thread. Either claims the chunk and moves its pages batch by batch:
//!
//! ```text
//! job -> lanes -> claimed_chunk -> batch_runner -> uffd_ops
//!      callers ---^                     |
//!                                       +-> lane_slots: the destination pages
//! ```

mod batch_runner;
mod busy_cpus;
mod callers;
mod chunk_move;
mod claimed_chunk;
mod exclusive_pages;
mod huge_arrival;
mod job;
mod kernel_batch;
mod lane_slots;
mod lanes;
mod options;
mod page_skips;
mod page_sources;
mod put_back_retry;
mod refusals;
mod report;
mod task;
mod uffd_ops;
mod verify_node;
mod zero_fill;

pub use batch_runner::{BatchRunner, folio_indices};
pub use busy_cpus::{BusyCpus, HeldBusyCpus};
pub use callers::Callers;
pub use chunk_move::ChunkMove;
pub use job::{JobKind, JobSpec, LaneJob};
pub use lane_slots::{BatchTarget, LaneSlots, prefer_node};
pub use lanes::Lanes;
pub use options::{Budget, Cancel, Migration, MoveOptions, Progress, Supply};
pub use page_skips::PageSkips;
pub use report::{MigrationReport, StepTimes, elapsed_ns};
pub use task::ChunkTask;
pub use zero_fill::{Waking, fill_with_zeros, may_fill_huge_page};
