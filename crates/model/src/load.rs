//! What a process runs: how much CPU time its threads got, and where.

use serde::{Deserialize, Serialize};

use crate::{CpuId, Name, Pid};

/// The CPU time of one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadTime {
    /// The kernel's number of the thread.
    pub tid: u32,
    /// The CPU on which it ran last.
    pub cpu: CpuId,
    /// CPU time since it began, in nanoseconds.
    pub cpu_time_ns: u64,
}

/// A process and the CPU time of its threads at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessLoad {
    /// Its pid.
    pub pid: Pid,
    /// Its name, as the kernel keeps it (15 bytes).
    pub name: Name,
    /// Memory in use that is not a mapped file: anonymous and shared memory and huge pages, in
    /// bytes.
    pub own_bytes: u64,
    /// Its threads in ascending order of their numbers; of very many, an even selection.
    pub threads: Vec<ThreadTime>,
}
