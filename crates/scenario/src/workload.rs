//! What programs do.

use nodeward_model::{NodeId, Nodemask};

/// A window that moves is this part of the memory unless a scenario says otherwise.
pub(crate) const WINDOW_SHARE: u64 = 8;

/// Processes that are alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// What to call it; unique in a scenario.
    pub name: String,
    /// What each process does.
    pub kind: Kind,
    /// How many processes, 1 or more.
    pub processes: u32,
    /// Threads of each process, 1 or more.
    pub threads: u32,
    /// Memory of each process in bytes.
    pub memory_bytes: u64,
    /// Whether its memory consists of huge pages (2 MiB) where they fit.
    pub huge: bool,
    /// Bytes of the folios that its memory consists of where there are no huge pages: 0 for base
    /// pages, else a power of two between a base page and a huge one. They fault and move whole.
    pub folio_bytes: u64,
    /// Where its pages come from.
    pub placement: Placement,
    /// The nodes on whose CPUs it may run; `None` for all.
    pub nodes: Option<Nodemask>,
    /// Where it is at home.
    pub home: Home,
    /// When it starts, in virtual nanoseconds.
    pub start_ns: u64,
    /// Whether each process is a memory control group of its own.
    pub own_groups: bool,
    /// Whether its memory is there from the beginning, without faults: for machines of which only
    /// the steady state is of interest. Kinds that allocate all the time do not have it.
    pub populated: bool,
    /// The nodes that its cpuset has, CPUs and memory alike; `None` for all.
    pub cpuset: Option<Nodemask>,
    /// Whether it rests now and then; kinds of pairs and of short lives do not.
    pub shifts: Option<Shifts>,
}

/// Working and resting in turn, from a process's start on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shifts {
    /// How long it works, in virtual nanoseconds.
    pub works_ns: u64,
    /// How long it sleeps then.
    pub rests_ns: u64,
}

/// Where pages come from that are touched for the first time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// The node of the CPU that touches them, or the nearest one with room.
    #[default]
    FirstTouch,
    /// These nodes only, the nearest first.
    Bind(Nodemask),
    /// These nodes in turn, page by page.
    Interleave(Nodemask),
    /// What was there from the beginning lies on these nodes in turn, as if threads had touched it
    /// there; what is touched later comes from where it is touched.
    Left(Nodemask),
    /// What was there from the beginning lies on the node farthest from each thread's first CPU;
    /// what is touched later comes from where it is touched.
    Away,
}

impl Placement {
    /// Whether the program told the kernel where its memory is to go, which keeps it there.
    pub fn is_policy(&self) -> bool {
        matches!(self, Self::Bind(_) | Self::Interleave(_))
    }
}

/// Which node is a process's home.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Home {
    /// None.
    #[default]
    None,
    /// This one.
    On(NodeId),
    /// The nodes with CPUs in turn, process by process.
    Spread,
}

impl Workload {
    /// The threads of all its processes.
    pub fn tasks(&self) -> u64 {
        u64::from(self.processes) * u64::from(self.threads)
    }

    /// What all its processes map at most, in whole pages of so many bytes; `None` if that is no
    /// number of 64 bits.
    pub fn mapped_bytes(&self, page_bytes: u64) -> Option<u64> {
        let each = self.memory_bytes.checked_next_multiple_of(page_bytes)?;
        each.checked_mul(u64::from(self.processes))
    }
}

/// How memory is used that misses the caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Misses that a thread has under way at a time, in thousandths: 1000 when each needs the
    /// answer of the one before, 10000 for streams that are fetched ahead.
    pub parallel_milli: u32,
    /// What a thread computes for each cache line, in picoseconds, beside waiting for it.
    pub compute_ps: u64,
    /// How many of 1000 lines are written.
    pub writes_milli: u32,
}

/// What a process does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Streams through its memory from end to end, again and again; each thread through its part.
    Triad {
        /// How.
        access: Access,
    },
    /// Touches random lines of all its memory, each thread of all.
    Random {
        /// How.
        access: Access,
        /// How many of 1000 touches go to the hot part.
        hot_touches_milli: u32,
        /// The hot part: the first so many of 1000 bytes.
        hot_bytes_milli: u32,
    },
    /// Maps its memory, touches every page, unmaps it, again and again; each thread its part.
    PageFault,
    /// A process of short life, followed by the next one: faults memory in, computes, exits.
    Compile {
        /// CPU time of each process's life.
        compute_ns: u64,
        /// How.
        access: Access,
        /// How many follow each other in each place; 0 for no end.
        lives: u32,
        /// How many thousandths of memory and CPU time a life may lack.
        varies_milli: u32,
    },
    /// Pairs of threads send messages to and fro; each allocates and frees pages for a message.
    PingPong {
        /// Bytes of a message.
        message_bytes: u64,
        /// What a thread computes for each message.
        compute_ns: u64,
    },
    /// Pairs of threads, one of which sends messages to the other, in buffers of the kernel.
    Stream {
        /// Bytes of a message.
        message_bytes: u64,
        /// Bytes of each of its buffers.
        buffer_bytes: u64,
        /// Messages that may be under way.
        window: u64,
        /// What each thread does for each message.
        compute_ns: u64,
        /// Whether both threads of a pair stay on one CPU.
        together: bool,
    },
    /// Threads work on their parts and wait for each other after each phase.
    Phases {
        /// How.
        access: Access,
        /// Bytes that a thread goes through in a phase.
        phase_bytes: u64,
        /// How many of 1000 lines are of other threads' parts.
        shared_milli: u32,
    },
    /// Random lines of a window that moves through the memory.
    MovingSet {
        /// How.
        access: Access,
        /// Bytes of the window.
        window_bytes: u64,
        /// How long it stays, in virtual nanoseconds.
        stays_ns: u64,
    },
    /// Touches all of its memory once, and keeps it.
    Hog,
}
