//! The fault model: the faults that this machine injects, and the invariants that hold all the
//! same.
//!
//! Rates come from the table `[faults]` of a scenario, the rest from its actions. The page, call or
//! interrupt that is hit is drawn from a stream of the seed that nothing else draws from. A
//! scenario without the table therefore runs exactly as it would without the fault model.
//!
//! **Allocations fail** where a move allocates a page for a copy, and in page faults. The page of a
//! move stays where it was and is reported as refused for lack of memory. A page fault takes
//! longer, and falls back from a huge page to base pages.
//!
//! **Pages are pinned** for a millisecond at a time, each page at its own time: when a move begins,
//! and between unmapping and copying. A pinned page does not move; if it is out of sight, it is put
//! back.
//!
//! **Interrupts are answered late** when CPUs are told to flush translations. Nothing is copied
//! before the last CPU has answered.
//!
//! **Samples are lost** when counters of accesses are read. The reported counts are true, but
//! incomplete.
//!
//! **Residency is stale** when an outside observer reads where pages are: it gets the place that
//! the previous look saw. The second look at a page that did not move in between is correct.
//!
//! **CPUs go offline and come back** (`cpus-off`, `cpus-on`). The kernel work of a CPU is finished
//! first, no task is lost, the page lists of the CPU are drained, and at least one CPU stays.
//!
//! **Memory goes offline and comes back** (`memory-off`, `memory-on`). A node goes offline only
//! when it is empty, and else stays. Nothing is allocated there meanwhile.
//!
//! **Processes fork** (`fork`). A process that writes to a shared page gets its own copy. Calls
//! that may move only a process's own pages leave shared ones where they are.
//!
//! **Processes exit** (`kill`, and where no memory is left). Their pages are freed; pages out of
//! sight are freed when the mover returns to them.
//!
//! Invariants under all faults: no page is lost or created, no node has more pages than its
//! capacity, and a visible page holds what was written to it last.
//! [`World::census`](crate::World::census) provides the counts to check that, taken anew from the
//! pages themselves.

mod contents;
mod fault_model;
mod injection;

pub use contents::{StaleContents, UnmapKey};
pub use fault_model::FaultModel;
pub use injection::RETRY_NS;
