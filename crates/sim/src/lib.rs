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

mod access_cost;
mod address_space;
mod arithmetic;
mod counters;
mod event_queue;
mod fault_model;
mod freeze;
pub mod hashes;
mod inspection;
mod latencies;
mod lazy;
mod lock;
mod lockstep;
mod machine;
mod machine_layout;
mod memory;
mod move_call;
mod mover;
mod numa_balancing;
mod observer;
mod perfetto_trace;
mod populate;
mod process;
mod process_exit;
mod process_watch;
mod programs;
mod report;
mod scenario_actions;
mod sched;
mod series;
mod slab;
mod task;
mod test_hooks;
mod timeline;
mod tlb;
mod topology;
mod trace;
mod traffic;
mod user_control;
mod world;

pub use counters::Counters;
pub use fault_model::{Census, HotplugRecord, NodeCensus, ProcessCensus, StalePage};
pub use inspection::PageView;
pub use latencies::Latencies;
pub use machine::{ProcessView, SimMachine};
pub use memory::{ListView, PageAccesses};
pub use observer::{CpuTurn, Observer};
pub use perfetto_trace::{Perfetto, TraceEnd, describe_action};
pub use report::{
    ActionMoveReport, ActionReport, Curves, LatencyReport, MachineReport, MemoryReport, NodeReport,
    Section, SimReport, WorkloadReport,
};
pub use scenario_actions::MoveRecord;
pub use series::{NodePoint, Point};
pub use task::{CpuTimeKind, TaskId};
pub use timeline::Timeline;
pub use world::{Moment, ResidencySnapshot, World};
