//! A machine in virtual time: any topology, any workload, the same result for the same seed.
//!
//! A [`World`] is a [`nodeward_scenario::Scenario`] that runs. Everything in it happens in events
//! with a time in nanoseconds. All arithmetic is in integers, and every choice comes from one seed.
//! Decisions are those made on real machines: batches by `nodeward_batch`, tuners and choices by
//! `nodeward_policy`.
//!
//! Faults are injected: allocations fail, pages are pinned, interrupts are answered late, samples
//! are lost, residency is stale, CPUs and memory go offline and come back, processes fork and exit
//! at the worst moment. The fault model at the top of `faults/mod.rs` states the faults and the
//! invariants that hold all the same.
//!
//! # Directories
//!
//! A directory uses only those before it in this table. The files of a directory do not use each
//! other in a circle either. `ids` and `arithmetic` are below all of them.
//!
//! | directory | what it holds |
//! |---|---|
//! | `events` | the event queue, locks that are granted in order of arrival, the hash of a run |
//! | `hardware` | CPUs, cores and nodes by index; load of memory and links |
//! | `statistics` | counters, latencies, the time series, observers, records of actions |
//! | `memory` | address spaces, zones, per-CPU lists, LRU locks, and the rules about free pages |
//! | `cpu` | tasks, CPUs, run queues; state of scheduler, copy threads and NUMA balancing |
//! | `faults` | rates and draws of injected faults, checks of page contents |
//! | `world` | the struct [`World`] with all this state, the trait of programs, queries |
//! | `paging` | page faults, the node of a fresh page, copies on write, populated memory |
//! | `turns` | start and end of a CPU's turn, interrupts, TLB shootdowns |
//! | `scheduler` | run queues, wake-ups, preemption, load balancing, home nodes, nudges |
//! | `processes` | processes and tasks that start, fork, freeze, are killed, exit |
//! | `migration` | batches of folios: unmap, flush, copy, map; copy threads and copy engine |
//! | `numa_balancing` | scans, hint faults, preferred nodes; the home balancer of 2012 |
//! | `hotplug` | CPUs and memory that go offline and come back |
//! | `programs` | the workloads of a scenario, as programs of tasks |
//! | `output` | reports, traces, timelines, a census of all pages |
//! | `simulation` | the start of a world, its events, the next operation of each task, actions |
//! | `machine` | the contract with a machine, and what tests and experiments do to one |
//!
//! The first six know nothing of a world: they take what they need as arguments. The others add
//! methods to [`World`], each for its subject. Only `simulation` and `machine` let time pass.

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
pub use world::{WorkEnds, World};
