//! CPUs and tasks as plain state: what runs, what waits in run queues, what each task does next,
//! and what the scheduler remembers of nodes and tasks.

mod copy_helpers;
mod dma_engine;
mod nudges;
mod numa_faults;
mod numa_state;
mod offline_cpus;
mod op;
mod pending_ipis;
mod processor;
mod run_queue;
mod scheduler_state;
mod task;

pub use copy_helpers::CopyHelpers;
pub use dma_engine::{DmaChannel, DmaEngine};
pub use numa_faults::{HintFault, TaskNumaFaults};
pub use numa_state::{LastCpupid, NumaBalancing, ScanCursor};
pub use offline_cpus::OfflineCpus;
pub use op::{CopyPart, LineAccess, LineCopy, Op};
pub use pending_ipis::PendingIpis;
pub use processor::{Cpu, TURN_NS, TurnWork};
pub use run_queue::QueueEntry;
pub use scheduler_state::{NodeQueues, SchedulerState};
pub use task::{Task, TaskState};
