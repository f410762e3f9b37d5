//! A machine in virtual time: any topology, any workload, the same result for the same seed.
//!
//! A [`World`] is a [`nodeward_scenario::Scenario`] that runs. Everything in it happens in events
//! with a time in nanoseconds. All arithmetic is in integers, and every choice comes from one seed.
//! The decisions are those made on real machines: the batches of `batch`, and the tuners and
//! choices of `policy`.
//!
//! Faults are injected: allocations fail, pages are pinned, interrupts are answered late, samples
//! are lost, residency is stale, CPUs and memory go offline and come back, processes fork and exit
//! at the worst moment. The fault model at the top of `faults/mod.rs` states the faults and the
//! invariants that hold all the same.

#![forbid(unsafe_code)]

mod arithmetic;
mod cpu;
mod events;
mod faults;
mod hardware;
pub mod hashes;
mod hotplug;
mod ids;
mod machine;
mod memory;
mod migration;
mod numa_balancing;
mod output;
mod paging;
mod processes;
mod programs;
mod scheduler;
mod simulation;
mod statistics;
mod turns;
mod world;

pub use ids::TaskId;
pub use machine::{PageView, ProcessView, SimMachine};
pub use memory::{ListView, PageAccesses};
pub use output::{
    ActionMoveReport, ActionReport, Census, Curves, LatencyReport, MachineReport, MemoryReport,
    NodeCensus, NodeReport, Perfetto, ProcessCensus, Section, SimReport, StalePage, Timeline,
    TraceEnd, WorkloadReport, describe_action,
};
pub use statistics::{
    Counters, CpuTimeKind, CpuTurn, HotplugRecord, Latencies, Moment, MoveRecord, NodePoint,
    Observer, Point, ResidencySnapshot,
};
pub use world::World;
