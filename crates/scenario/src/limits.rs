//! Limits on the size of a scenario. They keep every sum of the simulator within 64 bits, and every
//! run finite.

use std::ops::RangeInclusive;

/// Nodes of a machine.
pub const NODES_MAX: usize = 64;
/// CPUs of a machine.
pub const CPUS_MAX: u32 = 4096;
/// Memory of a machine in bytes: 64 TiB.
pub const MEMORY_BYTES_MAX: u64 = 64 << 40;
/// Threads of all processes of all workloads.
pub const TASKS_MAX: u64 = 65_536;
/// Workloads of a scenario.
pub const WORKLOADS_MAX: usize = 256;
/// Actions of a scenario.
pub const ACTIONS_MAX: usize = 4096;
/// Links of a machine: each node with each other one, in both directions.
pub const LINKS_MAX: usize = NODES_MAX * (NODES_MAX - 1);
/// Ways that memory moves because of actions, there or back, in total: each has a record.
pub const MIGRATIONS_MAX: u64 = 100_000;
/// Children of processes that fork because of actions, in total.
pub const FORKS_MAX: u64 = 4096;
/// Simulated time in nanoseconds: a day.
pub const TIME_NS_MAX: u64 = 86_400_000_000_000;
/// Points of a time series.
pub const SAMPLES_MAX: u64 = 100_000;
/// Minimum period of anything periodic, in nanoseconds: 1 us.
pub const PERIOD_NS_MIN: u64 = 1_000;
/// Maximum cost of anything, in nanoseconds: a minute.
pub const COST_NS_MAX: u64 = 60_000_000_000;
/// Bytes per second of anything: with less, a huge page would take hours.
pub const RATE: RangeInclusive<u64> = 1_000_000..=1_000_000_000_000_000;
/// Bytes of a base page, a power of two.
pub const PAGE_BYTES: RangeInclusive<u64> = 4096..=65_536;
/// Distances between two nodes; 255 would mean that one cannot reach the other.
pub const DISTANCE: RangeInclusive<u32> = 11..=254;
/// Hardware threads of a core.
pub const THREADS_PER_CORE_MAX: u32 = 8;
/// Outstanding misses of a thread, in thousandths.
pub const PARALLEL_MILLI: RangeInclusive<u64> = 1_000..=128_000;
/// Characters in a workload's name.
pub const NAME_LETTERS_MAX: usize = 64;
