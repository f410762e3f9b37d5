//! Tests of the simulator, in one program: each would link all of it.

mod access_sources;
mod accesses;
mod balance;
mod common;
mod conformance;
mod conservation;
mod contents;
mod fault_rates;
mod fork;
mod hashes;
mod hotplug;
mod machine;
mod numa_balancing;
mod scale;
mod theory_cpu;
mod theory_lists;
mod theory_memory;
mod theory_migration;
mod theory_nodes;
mod traces;
mod watching;
mod worlds;
