//! Workloads: the programs of a scenario.

use nodeward_model::{NodeId, Nodemask};

/// Default size of a moving window: memory divided by this.
pub(crate) const WINDOW_SHARE: u64 = 8;

/// A group of identical processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// Its name; unique in a scenario.
    pub name: String,
    /// The program of each process.
    pub kind: WorkloadKind,
    /// Number of processes, 1 or more.
    pub processes: u32,
    /// Threads per process, 1 or more.
    pub threads: u32,
    /// In how many pools, equal in size, the threads of a process are; those of a pool have a name
    /// of their own.
    pub pools: u32,
    /// Memory per process in bytes.
    pub memory_bytes: u64,
    /// Whether its memory consists of huge pages (2 MiB) where they fit.
    pub huge: bool,
    /// Bytes per folio of its memory where there are no huge pages: 0 for base pages, else a power
    /// of two between a base page and a huge one. Folios are faulted in and moved as a whole.
    pub folio_bytes: u64,
    /// The source of its pages.
    pub placement: MemoryPlacement,
    /// The nodes on whose CPUs it may run; `None` for all.
    pub nodes: Option<Nodemask>,
    /// The nodes on whose CPUs its processes begin, in turn, free to leave at once; `None`: threads
    /// begin on all CPUs that they may use, in turn.
    pub begins: Option<Nodemask>,
    /// Its home node.
    pub home: InitialHome,
    /// Its start, in virtual nanoseconds.
    pub start_ns: u64,
    /// Whether each process has a memory cgroup of its own.
    pub own_memcgs: bool,
    /// Whether its memory is populated at the start, without faults: for machines of which only the
    /// steady state is of interest. Not available for kinds that allocate all the time.
    pub populated: bool,
    /// The nodes of its cpuset, CPUs and memory alike; `None` for all.
    pub cpuset: Option<Nodemask>,
    /// Whether it alternates between work and rest. Not available for kinds of pairs and of
    /// short-lived processes.
    pub duty_cycle: Option<DutyCycle>,
    /// Whether each thread may run on the CPUs of the node where it begins only. Not available for
    /// kinds of pairs and of short-lived processes.
    pub bound: bool,
    /// Whether folios of all threads' parts take turns in its memory, so that neighbours are of
    /// different threads. Only for kinds whose threads have parts, without huge pages.
    pub scattered: bool,
    /// Whether its memory is one segment that all processes map. The threads of the first pool, of
    /// all processes, have the first parts of it, those of the next pool the next ones. Only for
    /// triads.
    pub one_segment: bool,
}

/// Alternation of work and rest, from a process's start on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DutyCycle {
    /// Duration of work, in virtual nanoseconds.
    pub busy_ns: u64,
    /// Duration of the sleep that follows, in virtual nanoseconds.
    pub idle_ns: u64,
}

/// The source of pages at first touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum MemoryPlacement {
    /// The node of the CPU that touches them, or the nearest one with room.
    #[default]
    FirstTouch,
    /// These nodes only, the nearest first.
    Bind(Nodemask),
    /// These nodes in turn, page by page.
    Interleave(Nodemask),
    /// Initial memory is on these nodes in turn, as if threads had touched it there. Memory touched
    /// later is local to the thread that touches it.
    PopulatedOn(Nodemask),
    /// Initial memory is on the node farthest from each thread's first CPU. Memory touched later is
    /// local to the thread that touches it.
    PopulatedFarthest,
}

impl MemoryPlacement {
    /// Returns whether the program set a memory policy, which keeps its memory in place.
    pub fn is_memory_policy(&self) -> bool {
        matches!(self, Self::Bind(_) | Self::Interleave(_))
    }
}

/// The home node of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InitialHome {
    /// None.
    #[default]
    None,
    /// This node.
    On(NodeId),
    /// The nodes with CPUs in turn, process by process.
    Spread,
}

impl Workload {
    /// Returns whether its processes end of themselves.
    pub fn ends(&self) -> bool {
        match self.kind {
            WorkloadKind::Triad { passes, .. } => passes > 0,
            WorkloadKind::Compile { lives, .. } => lives > 0,
            _ => false,
        }
    }

    /// Returns the threads of all its processes.
    pub fn tasks(&self) -> u64 {
        u64::from(self.processes) * u64::from(self.threads)
    }

    /// Returns the most bytes that all its processes map, in whole pages of `page_bytes`, and a
    /// segment once; `None` if that exceeds 64 bits.
    pub fn mapped_bytes(&self, page_bytes: u64) -> Option<u64> {
        let each = self.memory_bytes.checked_next_multiple_of(page_bytes)?;
        let times = if self.one_segment { 1 } else { self.processes };
        let segment = match self.kind {
            WorkloadKind::Database { segment_bytes, .. } => segment_bytes,
            _ => 0,
        };
        let own = each.checked_mul(u64::from(times))?;
        own.checked_add(segment.checked_next_multiple_of(page_bytes)?)
    }
}

/// Properties of memory accesses that miss the caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessPattern {
    /// Outstanding misses of a thread, in thousandths: 1000 when each needs the result of the
    /// previous one, 10000 for prefetched streams.
    pub parallel_milli: u32,
    /// Compute time of a thread per cache line, in picoseconds, beside the wait for it.
    pub compute_ps: u64,
    /// Lines written, per 1000.
    pub writes_milli: u32,
}

/// What a thread reads after each pass through its own part, in lines per 1000. In one segment,
/// both are in the parts of its pool's threads only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SharedLines {
    /// Lines of any thread's part, at random.
    pub random_milli: u32,
    /// Lines of the other threads' parts, from end to end.
    pub in_order_milli: u32,
}

impl SharedLines {
    /// Returns the sum of both.
    pub fn all_milli(self) -> u32 {
        self.random_milli.saturating_add(self.in_order_milli)
    }
}

/// The program of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkloadKind {
    /// Streams through its memory from end to end, repeatedly; each thread through its part.
    Triad {
        /// The accesses.
        access: AccessPattern,
        /// Lines that are not of its own part alone.
        shared: SharedLines,
        /// Passes after which a thread ends; 0 for no end.
        passes: u64,
    },
    /// Touches random lines of all its memory, each thread of all.
    Random {
        /// The accesses.
        access: AccessPattern,
        /// Touches of the hot part, per 1000.
        hot_touches_milli: u32,
        /// The hot part: the first bytes of the memory, per 1000.
        hot_bytes_milli: u32,
    },
    /// Repeatedly maps its memory, touches every page and unmaps it; each thread its part.
    PageFault,
    /// A short-lived process, followed by the next one: faults in memory, computes, exits.
    Compile {
        /// CPU time of each life.
        compute_ns: u64,
        /// The accesses.
        access: AccessPattern,
        /// Number of lives in each place; 0 for no end.
        lives: u32,
        /// Maximum part of memory and CPU time that a life may lack, in thousandths.
        varies_milli: u32,
    },
    /// Pairs of threads exchange messages; each allocates and frees pages for a message.
    PingPong {
        /// Bytes of a message.
        message_bytes: u64,
        /// Compute time of a thread per message.
        compute_ns: u64,
    },
    /// Pairs of threads, one of which sends messages to the other in kernel buffers.
    Stream {
        /// Bytes of a message.
        message_bytes: u64,
        /// Bytes of each of its buffers.
        buffer_bytes: u64,
        /// Maximum number of messages in transit.
        window: u64,
        /// Work of each thread per message.
        compute_ns: u64,
        /// Whether both threads of a pair stay on one CPU.
        on_one_cpu: bool,
    },
    /// Threads work on their parts and meet at a barrier after each phase.
    Phases {
        /// The accesses.
        access: AccessPattern,
        /// Bytes that a thread goes through per phase.
        phase_bytes: u64,
        /// Lines of other threads' parts, per 1000.
        shared_milli: u32,
    },
    /// Uses random lines of a window that moves through the memory.
    MovingSet {
        /// The accesses.
        access: AccessPattern,
        /// Bytes of the window.
        window_bytes: u64,
        /// Time that the window stays, in virtual nanoseconds.
        stays_ns: u64,
    },
    /// Touches random lines of its memory, and of a segment that all processes of the workload map.
    Database {
        /// The accesses.
        access: AccessPattern,
        /// Bytes of the segment.
        segment_bytes: u64,
        /// The source of the segment's pages.
        segment_placement: MemoryPlacement,
        /// Touches of the segment, per 1000.
        segment_milli: u32,
        /// Those of them that go to the process's own part of the segment, per 1000.
        own_part_milli: u32,
    },
    /// Touches all of its memory once, and keeps it.
    Hog,
}
