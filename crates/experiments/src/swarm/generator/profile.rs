//! The ranges that scenarios are drawn from.

use nodeward_scenario::{ParamInfo, ParamUnit, SchedulerKind, limits};

use crate::swarm::SeededRng;

/// The ranges that a scenario is drawn from.
#[derive(Clone, Copy, Debug)]
pub struct GeneratorProfile {
    /// Schedulers. Cases with rounds exclude [`SchedulerKind::SchedNuma2012`], which assigns homes
    /// itself.
    pub schedulers: &'static [SchedulerKind],
    /// Whether a built-in scenario is used now and then.
    pub with_built_in: bool,
    /// Whether the processes of a workload share a segment now and then.
    pub with_segments: bool,
    /// Simulated time, in nanoseconds.
    pub time_ns: (u64, u64),
    /// Simulated time in every second case, in nanoseconds.
    pub usual_time_ns: u64,
    /// One parameter in this many has another value.
    pub changed_param_one_in: &'static [u64],
    /// Whether parameters are plausible for a real machine; else any valid value.
    pub is_realistic: bool,
    /// Base pages per node.
    pub node_pages: &'static [u64],
    /// Cores per node.
    pub cores: &'static [u32],
    /// Latency of a miss, in nanoseconds.
    pub latency_ns: (u64, u64),
    /// Bandwidth of memory and links, in bytes per second.
    pub rate: (u64, u64),
    /// Processes per workload.
    pub processes: &'static [u32],
    /// Threads per process.
    pub threads: &'static [u32],
    /// Base pages per thread.
    pub thread_pages: &'static [u64],
    /// Maximum compute time per line, in picoseconds.
    pub compute_ps: u64,
    /// Periods of periodic work, in nanoseconds.
    pub period_ns: (u64, u64),
    /// Minimum number of bytes that a thread goes through between two barriers, as far as it has
    /// that many.
    pub phase_bytes: u64,
    /// Number of ways that an action moves memory back and forth.
    pub migrations_per_action: &'static [u32],
    /// Steps between actions, in nanoseconds.
    pub action_steps_ns: &'static [u64],
    /// Fault rates, in thousandths.
    pub fault_milli: &'static [u32],
    /// Delay of late interrupts, in nanoseconds.
    pub ipi_delay_ns: (u64, u64),
}

/// Any valid value. A run may never end.
pub const ANY_ACCEPTED: GeneratorProfile = GeneratorProfile {
    schedulers: &[
        SchedulerKind::NumaUnaware,
        SchedulerKind::HomeAware,
        SchedulerKind::SchedNuma2012,
    ],
    with_built_in: true,
    with_segments: true,
    time_ns: (limits::PERIOD_NS_MIN, limits::TIME_NS_MAX),
    usual_time_ns: 50_000_000,
    changed_param_one_in: &[1, 4, 20, 100],
    is_realistic: false,
    node_pages: &[0, 1, 64, 512, 1023, 4096, 1 << 13, 1 << 18, 1 << 26],
    cores: &[0, 1, 1, 2, 2, 3, 8],
    latency_ns: (1, limits::COST_NS_MAX),
    rate: (*limits::RATE.start(), *limits::RATE.end()),
    processes: &[1, 1, 2, 5, 40],
    threads: &[1, 1, 2, 4, 16],
    thread_pages: &[1, 2, 9, 100, 512, 513, 1025, 1 << 13, 1 << 20],
    compute_ps: limits::COST_NS_MAX,
    period_ns: (limits::PERIOD_NS_MIN, limits::TIME_NS_MAX),
    phase_bytes: 1,
    migrations_per_action: &[1, 1, 2, 100, 50_000],
    action_steps_ns: &[0, 1, 1000, 300_000],
    fault_milli: &[0, 0, 1, 20, 300, 1000],
    ipi_delay_ns: (1, limits::COST_NS_MAX),
};

/// Small machines with realistic costs: rounds end on them.
pub const REALISTIC: GeneratorProfile = GeneratorProfile {
    schedulers: &[SchedulerKind::NumaUnaware, SchedulerKind::HomeAware],
    with_built_in: false,
    with_segments: true,
    time_ns: (1_000_000, 40_000_000),
    usual_time_ns: 20_000_000,
    changed_param_one_in: &[4, 20, 100],
    is_realistic: true,
    node_pages: &[0, 512, 1023, 2048, 4096, 4096, 1 << 13, 1 << 14],
    cores: &[0, 1, 1, 2, 2, 3],
    latency_ns: (20, 2_000),
    rate: (1_000_000_000, 1_000_000_000_000),
    processes: &[1, 1, 2, 3],
    threads: &[1, 1, 2, 4],
    thread_pages: &[1, 2, 9, 100, 512, 513, 1025, 2048],
    compute_ps: 100_000,
    period_ns: (50_000, 10_000_000),
    phase_bytes: 64 << 10,
    migrations_per_action: &[1, 1, 2, 5],
    action_steps_ns: &[0, 1, 1000, 300_000, 2_000_000],
    fault_milli: &[0, 0, 5, 50, 200],
    ipi_delay_ns: (1_000, 5_000_000),
};

/// Factor between a likely machine's cost and the default.
const REALISTIC_FACTOR: u64 = 8;

impl GeneratorProfile {
    /// Returns the values that a parameter may have, in its unit.
    pub fn bounds(&self, chance: &mut SeededRng, info: &ParamInfo) -> (u64, u64) {
        let (least, most) = info.range().into_inner();
        if self.is_realistic {
            return realistic_bounds(info, (least, most));
        }
        // With the longest times and slowest rates of everything nothing would happen.
        let is_quick = !chance.one_in(4);
        match info.unit {
            ParamUnit::Time | ParamUnit::Picoseconds if is_quick => (least, 10_000.max(least)),
            ParamUnit::Rate if is_quick => (1_000_000_000, most),
            _ => (least, most),
        }
    }
}

fn realistic_bounds(info: &ParamInfo, (least, most): (u64, u64)) -> (u64, u64) {
    let times = |value: u64| value.saturating_mul(REALISTIC_FACTOR).clamp(least, most);
    match (info.name, info.unit) {
        ("slice" | "balance", _) => (200_000, times(info.default)),
        ("copiers" | "dma-channels" | "complex-cpus", _) => (least, 8),
        ("lazy-pages" | "batch" | "pcp-batch", _) => (least, 1024),
        ("pcp-high" | "pcp-high-max", _) => (least, 4096),
        // A copy by a thread that has a thousandth of its core takes minutes.
        ("smt-share", _) => (least.max(100), most),
        (_, ParamUnit::Rate) => ((info.default / REALISTIC_FACTOR).max(least), times(info.default)),
        (_, ParamUnit::Time | ParamUnit::Picoseconds) => (least, times(info.default)),
        ("copy-writes", _) => (least, times(info.default)),
        (_, ParamUnit::Count) => (least, times(info.default.max(1))),
        (_, ParamUnit::Bytes | ParamUnit::Milli | ParamUnit::Word(_)) => (least, most),
    }
}
