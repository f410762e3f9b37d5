//! A fake machine for tests: a few processes with their pages in a table, moved instantly and by
//! the rules of the kernel.
//!
//! It can inject these faults: pinned pages, full nodes, pages that vanish, a process that exits or
//! calls exec after a number of calls, a kernel that aborts at the first folio that it cannot move,
//! a program that changes its affinity during a nudge, nodes that go offline, another balancer,
//! tasks that stall for lack of memory, records of threads that are lost. Processes may map one
//! segment, each with those of its pages in its table that it touched.

mod access_source;
mod call;
mod counters;
mod lock;
mod machine;
mod numa_balancing;
mod process;
mod process_handle;
mod segments;
mod thread;
mod thread_log;
mod thread_records;
mod watch;

pub use counters::FakeCounters;
pub use machine::FakeMachine;
pub use numa_balancing::FakeNumaBalancing;
pub use process::{FakeProcess, PAGE_BYTES};
pub use thread::FakeThread;
