//! A cheap sample of processes: the CPUs that their threads run on, their CPU time and their
//! memory.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use crate::{CpuId, Cpumask, Name, NodeHeadroom, NodeId, Nodemask, Pid};

/// A selection of processes: those that any of the lists names, or all if every list is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessFilter {
    /// Pids.
    pub pids: Vec<Pid>,
    /// Names, as in /proc/PID/comm (15 bytes).
    pub names: Vec<Name>,
    /// Ids of the users that they run as.
    pub users: Vec<u32>,
    /// Control groups (version 2); the groups below them are included.
    pub cgroups: Vec<PathBuf>,
}

impl ProcessFilter {
    /// Returns true if every process is selected.
    pub fn matches_all(&self) -> bool {
        let Self { pids, names, users, cgroups } = self;
        pids.is_empty() && names.is_empty() && users.is_empty() && cgroups.is_empty()
    }
}

/// A sample of processes and nodes at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineSnapshot {
    /// The time of the sample by the machine's clock, in nanoseconds.
    pub at_ns: u64,
    /// The processes with memory of their own, in ascending order of pids.
    pub processes: Vec<ProcessSnapshot>,
    /// Selected processes that the caller may not read or act on, each with the privilege that
    /// would help, in ascending order of pids.
    pub denied: Vec<(Pid, String)>,
    /// The nodes that are online.
    pub nodes: BTreeMap<NodeId, NodeSnapshot>,
    /// Time for which some task was stalled for lack of memory, since an arbitrary moment before
    /// the first sample, in nanoseconds; `None` where that is not known. If only control groups are
    /// selected, only their tasks count.
    pub pressure_stall_ns: Option<u64>,
    /// Base pages that the machine has migrated so far, by whomever and for whatever reason, also
    /// within a node; `None` where it does not count them.
    pub migrated_pages: Option<u64>,
    /// Those of them that the NUMA balancing of the kernel has migrated; `None` where it does not
    /// count them.
    pub balancing_pages: Option<u64>,
}

/// The state of a process at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessSnapshot {
    /// Its pid.
    pub pid: Pid,
    /// Its name, as the kernel keeps it (15 bytes).
    pub name: Name,
    /// The start time in clock ticks after the boot, which tells it from another process with its
    /// pid.
    pub started_ticks: u64,
    /// CPU time of all its threads since the start, exited threads included, in nanoseconds.
    pub cpu_time_ns: u64,
    /// CPU time of the child processes that it has waited for, and of their children, in
    /// nanoseconds.
    pub children_cpu_time_ns: u64,
    /// Memory in use that is not a mapped file: anonymous and shared memory and huge pages, in
    /// bytes.
    pub non_file_bytes: u64,
    /// The nodes on which its cpuset permits memory.
    pub memory_nodes: Nodemask,
    /// True if its control group is frozen.
    pub frozen: bool,
    /// Its threads in ascending order of their ids. If the process did not run since the last
    /// sample, they may be the threads of that sample.
    pub threads: Vec<ThreadSnapshot>,
}

/// The state of a thread at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadSnapshot {
    /// The kernel's thread id.
    pub tid: u32,
    /// The CPU on which it ran last.
    pub cpu: CpuId,
    /// CPU time since the start, in nanoseconds.
    pub cpu_time_ns: u64,
    /// Time that it was runnable without a CPU, since its start, in nanoseconds. Waits in progress
    /// are not included. 0 where the machine does not report it.
    pub waited_ns: u64,
    /// The CPUs that it may run on: its affinity within its cpuset.
    pub cpus: Arc<Cpumask>,
}

/// The state of a node at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeSnapshot {
    /// Its headroom.
    pub headroom: NodeHeadroom,
    /// All its memory, in base pages.
    pub pages: u64,
    /// Pages that were meant for it but were allocated on another node, since the boot.
    pub foreign_pages: u64,
    /// Bytes that its memory read and wrote since an arbitrary moment before the first sample;
    /// `None` where the hardware does not count them.
    pub traffic_bytes: Option<u64>,
    /// The bandwidth of its memory in bytes per second; `None` where it is not known.
    pub bandwidth_bytes_per_s: Option<u64>,
}

/// The memory policies that keep a program's memory where it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryPolicies {
    /// The program set a policy for all its new memory (set_mempolicy, numactl).
    pub has_task_policy: bool,
    /// Ranges with a policy of their own (mbind), in ascending order.
    pub policy_ranges: Vec<crate::Range>,
}

/// The outcome of placing a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AffinityOutcome {
    /// The thread is on one of these CPUs now, or will be when it wakes up.
    Done,
    /// The thread may not run on any of them; nothing was changed.
    NotAllowed,
    /// The thread sleeps and would wake up on its former CPU; nothing was changed. A retry finds a
    /// thread that runs often awake sooner.
    Asleep,
    /// Another process changed the thread's affinity meanwhile; that change stays in force.
    Changed,
    /// The thread has exited.
    Gone,
}

impl AffinityOutcome {
    /// Returns its name in output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::NotAllowed => "not-allowed",
            Self::Asleep => "asleep",
            Self::Changed => "changed",
            Self::Gone => "gone",
        }
    }
}

/// The actions of the kernel's NUMA balancing on a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NumaActivity {
    /// Base pages that it migrated at hint faults of the thread, since the thread started.
    pub migrated_pages: u64,
    /// The node that it prefers for the thread; `None` before it has decided.
    pub preferred_node: Option<NodeId>,
}

/// Another balancer that moves memory or threads between nodes.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum OtherBalancer {
    /// The kernel's automatic balancing (kernel.numa_balancing).
    Kernel {
        /// The value of the sysctl: 1, 2 or 3.
        mode: u32,
    },
    /// numad, as a process.
    Numad {
        /// Its pid.
        pid: Pid,
    },
    /// A DAMON scheme that migrates pages.
    Damon {
        /// Its directory in sysfs.
        path: PathBuf,
    },
}
