//! A thread: its present operation and its scheduling state.

use nodeward_scenario::AccessPattern;

use crate::memory::SpaceId;

/// The index of a task.
pub type TaskId = u32;

/// A set of CPUs by index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuIndexSet(Vec<u64>);

impl CpuIndexSet {
    /// Creates a set of these CPUs.
    pub fn of(cpus: impl IntoIterator<Item = usize>) -> Self {
        let mut set = Self::default();
        cpus.into_iter().for_each(|cpu| set.insert(cpu));
        set
    }

    /// Adds a CPU.
    pub fn insert(&mut self, cpu: usize) {
        if self.0.len() <= cpu / 64 {
            self.0.resize(cpu / 64 + 1, 0);
        }
        self.0[cpu / 64] |= 1 << (cpu % 64);
    }

    /// Returns whether a CPU is in the set.
    pub fn contains(&self, cpu: usize) -> bool {
        self.0.get(cpu / 64).is_some_and(|word| word >> (cpu % 64) & 1 == 1)
    }

    /// Removes a CPU.
    pub fn remove(&mut self, cpu: usize) {
        if let Some(word) = self.0.get_mut(cpu / 64) {
            *word &= !(1 << (cpu % 64));
        }
    }

    /// Adds or removes a CPU.
    pub fn set(&mut self, cpu: usize, is_in: bool) {
        if is_in { self.insert(cpu) } else { self.remove(cpu) }
    }

    /// Returns whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|&word| word == 0)
    }

    /// Returns all CPUs, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        let bits = |(index, &word): (usize, &u64)| {
            let next = |left: &u64| Some(left & (left - 1)).filter(|&left| left != 0);
            let lefts = std::iter::successors(Some(word).filter(|&word| word != 0), next);
            lefts.map(move |left| index * 64 + left.trailing_zeros() as usize)
        };
        self.0.iter().enumerate().flat_map(bits)
    }
}

/// The purpose of CPU time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuTimeKind {
    /// The program itself.
    User,
    /// Page faults and freeing of memory.
    Fault,
    /// Unmapping pages, a step of a migration.
    Unmap,
    /// Flushing translations of other CPUs.
    Flush,
    /// Copying pages.
    Copy,
    /// Bringing pages back into sight.
    Map,
    /// Other kernel work.
    Kernel,
}

impl CpuTimeKind {
    /// All purposes.
    pub const ALL: [Self; 7] =
        [Self::User, Self::Fault, Self::Unmap, Self::Flush, Self::Copy, Self::Map, Self::Kernel];

    /// Returns the name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Fault => "fault",
            Self::Unmap => "unmap",
            Self::Flush => "flush",
            Self::Copy => "copy",
            Self::Map => "map",
            Self::Kernel => "kernel",
        }
    }
}

/// The granules of a region that an operation uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GranuleRange {
    /// The address space.
    pub space: SpaceId,
    /// The index of the region.
    pub region: usize,
    /// The first granule.
    pub first: usize,
    /// The number of granules, 1 or more.
    pub granules: usize,
}

/// Cache lines that a program requests. They miss the caches unless these hold the part.
#[derive(Clone, Copy, Debug)]
pub struct LineAccess {
    /// The memory.
    pub range: GranuleRange,
    /// Remaining lines.
    pub lines: u64,
    /// Properties of the accesses.
    pub pattern: AccessPattern,
    /// Whether the lines are used repeatedly. A part that fits the cache is then found there.
    pub reused: bool,
}

/// Memory that the kernel copies from one node to another. Kernel work is not interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineCopy {
    /// The index of the source node.
    pub from: usize,
    /// The index of the destination node.
    pub to: usize,
    /// Remaining cache lines.
    pub lines: u64,
}

/// An operation of a task.
#[derive(Clone, Copy, Debug)]
pub enum Op {
    /// Uses a CPU for a time, in nanoseconds of an idle core. Kernel work is not interrupted.
    Busy(CpuTimeKind, u64),
    /// Goes through memory.
    Access(LineAccess),
    /// Copies memory in the kernel.
    Copy(LineCopy),
    /// Waits until woken.
    Wait,
    /// Sleeps until this virtual time.
    Sleep(u64),
    /// Ends the task.
    Exit,
}

/// The scheduling state of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskState {
    /// In a run queue.
    Ready,
    /// On a CPU.
    Running,
    /// Waiting for a wake-up or a time.
    Waiting,
    /// Exited.
    Ended,
}

/// A thread. The fields that each turn needs come first. With thousands of tasks the host's caches
/// determine the time of a turn, so order and alignment are fixed.
#[repr(C, align(64))]
pub struct Task {
    /// The operation in progress.
    pub op: Option<Op>,
    /// The CPU that it is on, or was on last.
    pub cpu: usize,
    /// Virtual run time: weighted CPU time in nanoseconds. The task with the least runs next.
    pub vruntime_ns: u64,
    /// CPU time so far, in nanoseconds.
    pub cpu_time_ns: u64,
    /// The time at which it last left a CPU.
    pub last_ran_ns: u64,
    /// Its address space. `None` for a kernel thread.
    pub space: Option<SpaceId>,
    /// Its workload, by index. `None` for a kernel thread.
    pub workload: Option<usize>,
    /// The index of its home node.
    pub home: Option<usize>,
    /// Whether it precedes other tasks: threads that the kernel waits for.
    pub urgent: bool,
    /// Its scheduling state.
    pub state: TaskState,
    /// Whether it was woken while it was not waiting.
    pub wakeup_pending: bool,
    /// The CPUs that it may run on.
    pub allowed: CpuIndexSet,
}

impl Task {
    /// Creates a kernel thread that may run on these CPUs, and begins on the first of them.
    pub fn new(allowed: CpuIndexSet) -> Self {
        let cpu = allowed.iter().next().unwrap_or(0);
        Self {
            op: None,
            space: None,
            workload: None,
            cpu,
            allowed,
            home: None,
            urgent: false,
            state: TaskState::Ready,
            wakeup_pending: false,
            vruntime_ns: 0,
            last_ran_ns: 0,
            cpu_time_ns: 0,
        }
    }
}
