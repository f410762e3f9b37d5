//! A machine in virtual time: any topology, any workload, the same result for the same seed.
//!
//! A [`World`] is a [`nodeward_scenario::Scenario`] that runs. Everything in it happens in events
//! with a time in nanoseconds. All arithmetic is in integers, and every choice comes from one seed.
//! The decisions are those made on real machines: the batches of `migrate`, and the tuners and
//! choices of `policy`.
//!
//! Faults are injected: allocations fail, pages are pinned, interrupts are answered late, samples
//! are lost, residency is stale, CPUs and memory go offline and come back, processes fork and exit
//! at the worst moment. The fault model at the top of `faults/mod.rs` states the faults and the
//! invariants that hold all the same.

#![forbid(unsafe_code)]

mod actions;
mod call;
mod counters;
mod course;
mod events;
mod exit;
mod faults;
mod freeze;
pub mod hashes;
mod latencies;
mod layout;
mod lazy;
mod lines;
mod lock;
mod machine;
mod meddle;
mod memory;
mod mover;
mod nudge;
mod numa_balancing;
mod observer;
mod perfetto;
mod populate;
mod process;
mod programs;
mod recount;
mod report;
mod scale;
mod sched;
mod series;
mod shift;
mod slab;
mod space;
mod task;
mod tlb;
mod topology;
mod trace;
mod traffic;
mod watching;
mod world;

pub use actions::MoveRecord;
pub use counters::Counters;
pub use course::Course;
pub use faults::{Census, Hotplug, NodeCensus, ProcessCensus, StalePage};
pub use latencies::Latencies;
pub use machine::{ProcessView, SimMachine};
pub use memory::{ListView, PageAccesses};
pub use observer::{Observer, Turn};
pub use perfetto::{Perfetto, TraceEnd, describe};
pub use recount::PageView;
pub use report::{
    ActionReport, Curves, LatencyReport, MachineReport, MemoryReport, MoveReport, NodeReport,
    Report, Section, WorkloadReport,
};
pub use series::{NodePoint, Point};
pub use task::{Spent, TaskId};
pub use world::{Moment, Picture, World};
