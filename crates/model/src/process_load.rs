//! The load of a process: the CPU time of its threads, and the CPUs on which they ran.

use serde::{Deserialize, Serialize};

use crate::{CpuId, Name, Pid};

/// The CPU time of one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadCpuTime {
    /// The kernel's thread id.
    pub tid: u32,
    /// The CPU on which it ran last.
    pub cpu: CpuId,
    /// CPU time since the start, in nanoseconds.
    pub cpu_time_ns: u64,
}

/// The CPU time of a process's threads at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessLoad {
    /// Its pid.
    pub pid: Pid,
    /// Its name, as the kernel keeps it (15 bytes).
    pub name: Name,
    /// Memory in use that is not a mapped file: anonymous and shared memory and huge pages, in
    /// bytes.
    pub non_file_bytes: u64,
    /// Its threads in ascending order of their ids. A process with very many threads has an evenly
    /// spaced selection.
    pub threads: Vec<ThreadCpuTime>,
}
