//! Migrations: a call makes a job, lanes take its tasks, and each lane moves the pages of a chunk
//! batch by batch.

mod batch_runner;
mod busy_cpus;
mod claimed_chunk;
mod job;
mod kernel_batch;
mod lane_slots;
mod lanes;
mod options;
mod put_back_retry;
mod refusals;
mod report;
mod uffd_ops;
mod verify_node;

pub use batch_runner::{BatchRunner, UnmappedPages};
pub use busy_cpus::BusyCpus;
pub use claimed_chunk::{ClaimedChunk, MoveOptions};
pub use job::{ChunkTask, JobKind, JobSpec, LaneJob};
pub use lane_slots::{BatchTarget, LaneSlots, NodeSlot, fits_move, prefer_node};
pub use lanes::Lanes;
pub use options::{Budget, Cancel, Migration, Progress, Supply};
pub use report::{MigrationReport, StepTimes};
pub use uffd_ops::ChunkMove;
