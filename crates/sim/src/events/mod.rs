//! Virtual time: the event queue, locks that CPUs wait for, and the hash of a run.

mod event_queue;
mod lock;
mod trace_hash;

pub use event_queue::{EventQueue, NEVER_NS, SimEvent};
pub use lock::QueuedLock;
pub use trace_hash::TraceHash;
