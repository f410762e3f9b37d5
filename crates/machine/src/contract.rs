//! What a machine must provide.

use std::collections::BTreeMap;
use std::sync::Arc;

use nodeward_model::{
    Access, Bound, CpuId, Cpumask, Glance, Identity, Mapping, NodeId, Page, Pid, Place, Placed,
    Range, Rival, Room, Topology, Wanted,
};
use serde::Serialize;

use crate::{MoveBatch, MoveOutcome, Result};

/// What a machine can do for us, found by trying, never by its version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Capabilities {
    /// Pages that other processes map can be moved (CAP_SYS_NICE).
    pub move_everyones: bool,
    /// The node of a page can be read from its frame number (CAP_SYS_ADMIN): the fastest way to
    /// look.
    pub frame_numbers: bool,
    /// Populated ranges can be listed without walking holes (PAGEMAP_SCAN, Linux 6.7).
    pub pagemap_scan: bool,
}

/// A machine: this kernel, a simulated one, or one on paper.
pub trait Machine: Send + Sync {
    /// Bytes in a base page; a power of two.
    fn page_bytes(&self) -> u64;

    /// What works here. Cost: a few system calls, once.
    fn capabilities(&self) -> Capabilities;

    /// Nodes, CPUs, caches and distances as they are now. Cost: a few milliseconds.
    fn topology(&self) -> Result<Topology>;

    /// How much more nodes can take now; nodes that are missing have no end of room. Cost: one
    /// file, which grows with the number of CPUs.
    fn rooms(&self) -> Result<BTreeMap<NodeId, Room>>;

    /// Huge pages of so many bytes that a node has ready for whoever moves there; `None` where the
    /// machine does not tell. Cost: a few files.
    fn free_huge_pages(&self, _node: NodeId, _bytes: u64) -> Option<u64> {
        None
    }

    /// One past the highest page frame that the machine can have; `None` if frame numbers are
    /// hidden from us.
    fn frames_end(&self) -> Option<u64>;

    /// The CPUs that we may run on.
    fn usable_cpus(&self) -> Result<Cpumask>;

    /// Monotonic time in nanoseconds.
    fn now_ns(&self) -> u64;

    /// Waits for so many nanoseconds, or a little longer.
    fn sleep_ns(&self, ns: u64);

    /// Keeps the calling thread on one CPU; the thread stays where it is if that is not allowed.
    fn stay_on(&self, cpu: CpuId);

    /// Lets threads that wake up have the calling thread's CPU at once, as far as the machine can.
    /// The thread keeps its share of the CPU.
    fn give_way(&self);

    /// Tells that the calling thread is worker `number` of `of` that call side by side, each until
    /// it says [`Machine::end_shift`]. A simulated machine waits for all of them, and lets them act
    /// one at a time, in the order of virtual time.
    fn begin_shift(&self, _number: u32, _of: u32) {}

    /// The calling thread is done with what it does beside others.
    fn end_shift(&self) {}

    /// Takes hold of a process, so that its pid cannot come to mean another one.
    ///
    /// # Errors
    /// `Gone` if there is no such process, `KernelThread`, `Denied` if it belongs to somebody else.
    fn hold(&self, pid: Pid) -> Result<Arc<dyn Process>>;

    /// Begins to watch processes: what a balancer looks at again and again.
    ///
    /// # Errors
    /// If the processes cannot be listed, or a control group that is named does not exist.
    fn watch(&self, wanted: &Wanted) -> Result<Box<dyn Watch>>;

    /// Who else moves memory or threads between nodes now. Cost: a few files.
    fn rivals(&self) -> Result<Vec<Rival>>;

    /// Accesses that the machine counted since the last call, and whose pages they were to; reading
    /// clears them. `None` where nothing counts them by page and node: a stock kernel does not, but
    /// somebody may sample them.
    fn take_accesses(&self) -> Option<Vec<(Pid, Access)>> {
        None
    }

    /// CPU time that the calling process has had so far, in nanoseconds: what looking and moving
    /// cost. 0 on a machine where that takes none.
    fn own_cpu_time_ns(&self) -> u64;

    /// Which of the machine's processes is the calling one; none if it runs elsewhere.
    fn own_pid(&self) -> Option<Pid> {
        None
    }
}

/// Looks at the same processes again and again, and remembers what makes the next look cheap.
pub trait Watch: Send {
    /// Processes and nodes as they are now. Processes that come and go while we look are left out,
    /// never an error. Cost: a few files for each process, and for each thread of those that ran
    /// since the last look.
    fn glance(&mut self) -> Result<Glance>;
}

/// Whether a held process still runs the program that was held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// It does.
    Running,
    /// It has ended.
    Exited,
    /// It called exec: the memory that was held is gone.
    Replaced,
}

/// A process that is held. After it ends every method says `Gone`, never something about another.
pub trait Process: Send + Sync {
    /// Its pid.
    fn pid(&self) -> Pid;

    /// What tells it from every other process. Cost: a few files.
    fn identity(&self) -> Result<Identity>;

    /// Whether it still runs. Cost: one system call.
    fn life(&self) -> Life;

    /// Its mappings in ascending order, without those that hold no memory (vdso and the like).
    fn mappings(&self) -> Result<Vec<Mapping>>;

    /// Bytes of its memory that are in RAM, roughly. Cost: one system call.
    fn resident_bytes(&self) -> Result<u64>;

    /// The parts of `range` that may hold pages, in ascending order; a superset. Costs time per
    /// populated page table where the kernel can list them, nothing (and `range` itself) elsewhere.
    fn populated(&self, range: Range) -> Result<Vec<Range>>;

    /// Appends what each base page of a range is now; the range is page-aligned and inside one
    /// mapping. Walks at most 2 MiB of the target at a time, so that it is never held up for long.
    fn pages(&self, mapping: &Mapping, range: Range, into: &mut Vec<Page>) -> Result<()>;

    /// Appends where each base page of a range is now, as [`Process::pages`] does, at less cost:
    /// without folios and sharers.
    fn places(&self, range: Range, into: &mut Vec<Place>) -> Result<()>;

    /// Appends the page frame number of each base page of a range, as [`Process::pages`] walks it;
    /// `None` for what is not in memory.
    ///
    /// # Errors
    /// `Denied` if frame numbers are hidden from us ([`Capabilities::frame_numbers`]).
    fn frames(&self, range: Range, into: &mut Vec<Option<u64>>) -> Result<()>;

    /// Where single pages are now, in the order of the addresses.
    fn locate(&self, addresses: &[u64]) -> Result<Vec<Place>>;

    /// Moves pages. Not every page may be moved, and the machine may not say of each what became
    /// of it: see [`MoveOutcome`]. A page is never lost, whatever happens.
    ///
    /// # Errors
    /// Only if nothing was attempted.
    fn move_pages(&self, batch: &MoveBatch) -> Result<MoveOutcome>;

    /// What the program told the kernel about where its memory goes. Cost: a walk over its page
    /// tables, some 10 ms for a gibibyte in base pages.
    fn bound(&self) -> Result<Bound>;

    /// Brings a thread to one of these CPUs and then lets it run where it might before (a *nudge*):
    /// nothing is left to undo.
    fn nudge(&self, tid: u32, cpus: &Cpumask) -> Result<Placed>;

    /// Keeps a thread on these CPUs, as far as its cpuset lets it run there, until somebody says
    /// otherwise. What it was told before is forgotten.
    fn pin(&self, tid: u32, cpus: &Cpumask) -> Result<Placed>;
}
