//! A thread of the fake machine.

use nodeward_model::{CpuId, Cpumask, Name, NumaActivity};

/// A thread of a process of the fake machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FakeThread {
    /// Its name; that of its process if that is empty.
    pub name: Name,
    /// The CPU on which it ran last.
    pub cpu: CpuId,
    /// The CPUs that it may run on.
    pub cpus: Cpumask,
    /// CPU time used so far, in nanoseconds.
    pub cpu_time_ns: u64,
    /// CPU time that it uses in 1000 nanoseconds of machine time, in nanoseconds.
    pub run_permille: u64,
    /// Time that it has waited for a CPU, in nanoseconds.
    pub waited_ns: u64,
    /// Time that it waits in 1000 nanoseconds of machine time, in nanoseconds.
    pub wait_permille: u64,
    /// What the kernel's NUMA balancing has done for it; `None` if the machine does not report it.
    pub numa_activity: Option<NumaActivity>,
}

impl FakeThread {
    /// Returns a new thread on a CPU, with its affinity and its CPU time in 1000 nanoseconds.
    pub fn new(cpu: CpuId, cpus: Cpumask, busy_milli: u64) -> Self {
        Self {
            name: Name::default(),
            cpu,
            cpus,
            cpu_time_ns: 0,
            run_permille: busy_milli,
            waited_ns: 0,
            wait_permille: 0,
            numa_activity: None,
        }
    }
}
