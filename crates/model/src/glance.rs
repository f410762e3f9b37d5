//! What a cheap look at processes tells: who runs where and how long, with how much memory.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use crate::{CpuId, Cpumask, Name, NodeId, Nodemask, Pid, Room};

/// Which processes are meant: those that any of the lists names, or all if nothing is named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// By number.
    pub pids: Vec<Pid>,
    /// By name, as /proc/PID/comm has it (15 bytes).
    pub names: Vec<Name>,
    /// By the number of the user that they run as.
    pub users: Vec<u32>,
    /// By control group (version 2), with the groups below it.
    pub cgroups: Vec<PathBuf>,
}

impl Wanted {
    /// Whether every process is meant.
    pub fn is_everything(&self) -> bool {
        let Self { pids, names, users, cgroups } = self;
        pids.is_empty() && names.is_empty() && users.is_empty() && cgroups.is_empty()
    }
}

/// Processes and nodes at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Glance {
    /// When, by the machine's clock, in nanoseconds.
    pub at_ns: u64,
    /// The processes with memory of their own, in ascending order of pids.
    pub processes: Vec<ProcessGlance>,
    /// Those that we may not look at or act on, and what would help, in ascending order of pids.
    pub denied: Vec<(Pid, String)>,
    /// The nodes that are online.
    pub nodes: BTreeMap<NodeId, NodeGlance>,
    /// For how long some task stood still for want of memory, since any time before the first look,
    /// in nanoseconds; `None` where that is not known. If only control groups are wanted, a task of
    /// those.
    pub stalled_ns: Option<u64>,
}

/// A process at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessGlance {
    /// Its pid.
    pub pid: Pid,
    /// Its name, as the kernel keeps it (15 bytes).
    pub name: Name,
    /// When it began, in clock ticks after the boot: tells it from another that gets its pid.
    pub started_ticks: u64,
    /// CPU time of all its threads since it began, those that ended among them, in nanoseconds.
    pub cpu_time_ns: u64,
    /// CPU time of the processes that it started, ended and waited for, and of theirs, in
    /// nanoseconds.
    pub children_time_ns: u64,
    /// Memory in use that is not a mapped file: anonymous and shared memory and huge pages, in
    /// bytes.
    pub own_bytes: u64,
    /// The nodes that its cpuset lets it have memory of.
    pub memory_nodes: Nodemask,
    /// Whether its control group is frozen.
    pub frozen: bool,
    /// Its threads in ascending order of their numbers. Of a process that did not run since the
    /// last look they may be those of that look.
    pub threads: Vec<ThreadGlance>,
}

/// A thread at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadGlance {
    /// The kernel's number of the thread.
    pub tid: u32,
    /// The CPU on which it ran last.
    pub cpu: CpuId,
    /// CPU time since it began, in nanoseconds.
    pub cpu_time_ns: u64,
    /// For how long it was ready to run and had no CPU since it began, in nanoseconds, as far as
    /// its waits have ended; 0 where the machine does not tell.
    pub waited_ns: u64,
    /// The CPUs that it may run on: its affinity within its cpuset.
    pub cpus: Arc<Cpumask>,
}

/// A node at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeGlance {
    /// What it can still take.
    pub room: Room,
    /// All its memory, in base pages.
    pub pages: u64,
    /// Pages that were meant for it and came from elsewhere, since the machine began.
    pub foreign_pages: u64,
    /// Bytes that its memory took and gave since any time before the first look; `None` where
    /// nobody counts.
    pub carried_bytes: Option<u64>,
    /// What its memory can carry in a second, in bytes; `None` where nobody tells.
    pub bandwidth_bytes_per_s: Option<u64>,
}

/// What keeps a program's memory where it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bound {
    /// The program told the kernel where all its new memory goes (set_mempolicy, numactl).
    pub whole: bool,
    /// Ranges for which it did so (mbind), in ascending order.
    pub ranges: Vec<crate::Range>,
}

/// What a thread was told about its CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placed {
    /// It is on one of these CPUs now, or will be when it wakes up.
    Done,
    /// It may not run on any of them; nothing was changed.
    NotAllowed,
    /// It sleeps, and would wake up where it was before; nothing was changed. Who runs more often
    /// is met awake sooner.
    Asleep,
    /// Somebody changed its affinity meanwhile, which stands as they left it.
    Changed,
    /// It has ended.
    Gone,
}

/// Somebody else who moves memory or threads between nodes.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Rival {
    /// The kernel's automatic balancing (kernel.numa_balancing).
    Kernel {
        /// What the sysctl says: 1, 2 or 3.
        mode: u32,
    },
    /// numad, as a process.
    Numad {
        /// Its pid.
        pid: Pid,
    },
    /// A scheme of DAMON that migrates.
    Damon {
        /// Where it stands in sysfs.
        path: PathBuf,
    },
}
