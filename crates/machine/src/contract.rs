//! The operations that a machine must provide.

use std::collections::BTreeMap;
use std::sync::Arc;

use nodeward_model::{
    AffinityOutcome, CpuId, Cpumask, MachineSnapshot, Mapping, MemoryPolicies, NodeHeadroom,
    NodeId, NumaActivity, OtherBalancer, Page, PageLocation, Pid, ProcessFilter, ProcessIdentity,
    ProcessTraits, Range, Topology, ZoneLists,
};
use serde::Serialize;

use crate::{
    AccessSource, AccessSourceKind, AccessSourceStatus, CallEnd, CollapseOutcome, Error,
    MovePagesCall, MovePagesOutcome, NumaBalancingSwitch, Result, ThreadRecords, WorkerRegistry,
};

/// Optional features of a machine, found by trying them, never by the kernel version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Capabilities {
    /// Pages that other processes map can be moved (CAP_SYS_NICE).
    pub move_shared: bool,
    /// The node of a page can be read from its frame number (CAP_SYS_ADMIN): the fastest way to
    /// read residency.
    pub frame_numbers: bool,
    /// Populated ranges can be listed without walking holes (PAGEMAP_SCAN, Linux 6.7).
    pub pagemap_scan: bool,
}

/// Base pages by node, for each mapping by its addresses.
pub type PagesByMapping = BTreeMap<Range, BTreeMap<NodeId, u64>>;

/// A machine: this kernel, a simulated one or a fake one.
pub trait Machine: WorkerRegistry + Send + Sync {
    /// Returns the bytes in a base page; a power of two.
    fn page_bytes(&self) -> u64;

    /// Probes the optional features. Cost: a few system calls, once.
    fn capabilities(&self) -> Capabilities;

    /// Returns the present nodes, CPUs, caches and distances. Cost: a few milliseconds.
    fn topology(&self) -> Result<Topology>;

    /// Returns the present headroom of each node; a node that is missing has no limit. Cost: one
    /// file, whose size grows with the number of CPUs.
    fn headroom(&self) -> Result<BTreeMap<NodeId, NodeHeadroom>>;

    /// Returns the zones that have page lists; none where the machine does not tell them. Cost: one
    /// file, whose size grows with the number of CPUs.
    fn page_lists(&self) -> Result<Vec<ZoneLists>> {
        Ok(Vec::new())
    }

    /// Returns the number of free huge pages of `bytes` bytes that a node has for migration; `None`
    /// where the machine does not report it. Cost: a few files.
    fn free_huge_pages(&self, _node: NodeId, _bytes: u64) -> Option<u64> {
        None
    }

    /// Returns one past the highest page frame that the machine can have; `None` if the caller may
    /// not read frame numbers.
    fn frames_end(&self) -> Option<u64>;

    /// Returns the CPUs that the calling process may use.
    fn usable_cpus(&self) -> Result<Cpumask>;

    /// Returns monotonic time in nanoseconds.
    fn now_ns(&self) -> u64;

    /// Waits for `ns` nanoseconds or a little longer.
    fn sleep_ns(&self, ns: u64);

    /// Pins the calling thread to one CPU; the thread keeps its affinity if the pin is not allowed.
    fn pin_current_thread(&self, cpu: CpuId);

    /// Lets threads that wake up preempt the calling thread at once, as far as the machine can. The
    /// thread keeps its share of the CPU.
    fn yield_to_waking_threads(&self);

    /// Returns the time for which these CPUs have been busy since an arbitrary moment, all
    /// together, in nanoseconds; `None` where that is not known.
    fn busy_ns(&self, _cpus: &[CpuId]) -> Option<u64> {
        None
    }

    /// Returns the time for which CPUs had nothing to run since an arbitrary moment, all of the
    /// machine together, in nanoseconds; `None` where that is not known. Cost: a line of a file.
    fn idle_ns(&self) -> Option<u64> {
        None
    }

    /// Gives the calling thread this nice value, from -20 to 19; threads that it starts inherit it.
    /// Returns the one before; `None` if nothing has changed, as where it is not permitted.
    fn renice_current_thread(&self, nice: i8) -> Option<i8>;

    /// Takes a handle of a process, so that its pid cannot come to mean another process.
    ///
    /// # Errors
    /// `Gone` if there is no such process, `KernelThread`, `Denied` if it belongs to another user.
    fn open_process(&self, pid: Pid) -> Result<Arc<dyn Process>>;

    /// Starts to watch processes: the repeated samples of a balancer.
    ///
    /// # Errors
    /// If the processes cannot be listed, or a named control group does not exist.
    fn watch(&self, wanted: &ProcessFilter) -> Result<Box<dyn ProcessWatch>>;

    /// Returns the other balancers that now move memory or threads between nodes. Cost: a few
    /// files.
    fn other_balancers(&self) -> Result<Vec<OtherBalancer>>;

    /// Holds the switch of the kernel's NUMA balancing; `None` if another process does. Cost: a few
    /// files.
    ///
    /// # Errors
    /// `Unsupported` if there is no such switch, `Denied` if the caller may not use it, with the
    /// remedy.
    fn hold_numa_balancing(&self) -> Result<Option<Box<dyn NumaBalancingSwitch>>> {
        Err(Error::Unsupported {
            action: "switching the kernel's NUMA balancing",
            reason: "this machine has no switch for it".to_owned(),
        })
    }

    /// Returns the sources of accesses that this machine may have, the preferred ones first, each
    /// with what keeps it from working. Cost: a few system calls for each.
    fn access_sources(&self) -> Vec<AccessSourceStatus> {
        Vec::new()
    }

    /// Opens a source of accesses. It observes nothing yet.
    ///
    /// # Errors
    /// `Unsupported` or `Denied` if it does not work here, with the remedy.
    fn open_access_source(&self, kind: AccessSourceKind) -> Result<Box<dyn AccessSource>> {
        Err(Error::Unsupported {
            action: "observing accesses",
            reason: format!("this machine has no source '{kind}'"),
        })
    }

    /// Opens the records of threads that start and end, of all processes, from now on. Cost: a
    /// system call and some memory for each CPU; less than a microsecond for each thread that
    /// starts or ends while they are open.
    ///
    /// # Errors
    /// `Unsupported` or `Denied` if they do not work here, with the remedy.
    fn open_thread_records(&self) -> Result<Box<dyn ThreadRecords>> {
        Err(Error::Unsupported {
            action: "recording which thread starts which",
            reason: "this machine has no such records".to_owned(),
        })
    }

    /// Returns the CPU time that the calling process has used, in nanoseconds: the cost of reading
    /// and moving. 0 on a machine that does not charge it.
    fn own_cpu_time_ns(&self) -> u64;

    /// Returns the pid of the calling process on this machine; `None` if it runs elsewhere.
    fn own_pid(&self) -> Option<Pid> {
        None
    }
}

/// A repeated reader of the same processes. It caches what makes the next sample cheap.
pub trait ProcessWatch: Send {
    /// Returns the present processes and nodes. Processes that start or exit during the call are
    /// left out, never an error. Cost: a few files for each process, and for each thread of a
    /// process that ran since the last call.
    fn snapshot(&mut self) -> Result<MachineSnapshot>;
}

/// The state of a held process, compared with the moment when it was held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liveness {
    /// It still runs the same program.
    Running,
    /// It has exited.
    Exited,
    /// It called exec: the memory that was held is gone.
    Replaced,
}

/// A held process. After it exits every method fails with `Gone`; none ever reads another process
/// that got the same pid.
pub trait Process: Send + Sync {
    /// Returns its pid.
    fn pid(&self) -> Pid;

    /// Returns the identity that tells it from every other process. Cost: a few files.
    fn identity(&self) -> Result<ProcessIdentity>;

    /// Returns its state. Cost: one system call.
    fn liveness(&self) -> Liveness;

    /// Returns its mappings in ascending order, without those that hold no memory (such as the
    /// vdso).
    fn mappings(&self) -> Result<Vec<Mapping>>;

    /// Returns what patterns of groups ask of it: user, control group, names of threads. Threads
    /// that end during the call are left out. Cost: two files, and one for each thread.
    fn traits(&self) -> Result<ProcessTraits>;

    /// Returns roughly the bytes of its memory that are in RAM. Cost: one system call.
    fn resident_bytes(&self) -> Result<u64>;

    /// Returns the bytes of its memory that the kernel counts as pinned by devices; 0 where none is
    /// counted, which does not mean that none is. Cost: one file.
    fn pinned_bytes(&self) -> Result<u64> {
        Ok(0)
    }

    /// Returns the parts of `range` that may hold pages, in ascending order; a superset. Costs time
    /// per populated page table where the kernel can list them. Elsewhere it costs nothing and
    /// returns `range` itself.
    fn populated(&self, range: Range) -> Result<Vec<Range>>;

    /// Returns the base pages of each mapping by node, as they are in memory and without the zero
    /// page, from one walk inside the kernel. Mappings of which pages may be in swap are left out.
    /// `None` where the machine has no such list. Cost: time per page in memory, none for addresses
    /// without pages; the process cannot change its mappings meanwhile.
    fn pages_by_mapping(&self) -> Result<Option<PagesByMapping>> {
        Ok(None)
    }

    /// Appends the state of each base page of a page-aligned range inside one mapping. Reads at
    /// most 2 MiB of the target at a time, so that the target is never blocked for long.
    fn pages(&self, mapping: &Mapping, range: Range, into: &mut Vec<Page>) -> Result<()>;

    /// Appends the state of each base page of several ranges, which ascend, as [`Process::pages`]
    /// does for each. Tens of thousands of small mappings cost as much as one of their size.
    fn pages_of(&self, parts: &[(Arc<Mapping>, Range)], into: &mut Vec<Page>) -> Result<()> {
        parts.iter().try_for_each(|(mapping, range)| self.pages(mapping, *range, into))
    }

    /// Appends the place of each base page of a range, as [`Process::pages`] does, but cheaper:
    /// without folios and sharers.
    fn locations(&self, range: Range, into: &mut Vec<PageLocation>) -> Result<()>;

    /// Appends the place of each base page of several ranges, which ascend, as
    /// [`Process::pages_of`] does.
    fn locations_of(&self, ranges: &[Range], into: &mut Vec<PageLocation>) -> Result<()> {
        ranges.iter().try_for_each(|range| self.locations(*range, into))
    }

    /// Appends the page frame number of each base page of a range, read as [`Process::pages`] does;
    /// `None` for a page that is not in memory.
    ///
    /// # Errors
    /// `Denied` if the caller may not read frame numbers ([`Capabilities::frame_numbers`]).
    fn frames(&self, range: Range, into: &mut Vec<Option<u64>>) -> Result<()>;

    /// Returns the present places of single pages, in the order of the addresses.
    fn locate(&self, addresses: &[u64]) -> Result<Vec<PageLocation>>;

    /// Moves pages. A machine need not move every page, and need not report the result of each: see
    /// [`MovePagesOutcome`]. A page is never lost.
    ///
    /// # Errors
    /// Only if nothing was attempted.
    fn move_pages(&self, batch: &MovePagesCall) -> Result<MovePagesOutcome>;

    /// Moves all pages of the process from one node to another by one walk inside the kernel, with
    /// [`Capabilities::move_shared`] also those that other processes map. It holds no more pages at
    /// a time than a large batch, but nothing stops it. Which pages stayed is not told. Cost: time
    /// per page in memory, none for addresses without pages.
    ///
    /// # Errors
    /// Only if nothing was attempted; `Unsupported` where the machine has no such call.
    fn migrate_pages(&self, _from: NodeId, _to: NodeId) -> Result<CallEnd> {
        Err(Error::Unsupported {
            action: "moving all pages of a process in one call",
            reason: "this machine has no migrate_pages(2)".to_owned(),
        })
    }

    /// Collapses the base pages of a part of private memory into one huge page, on the node that
    /// has most of them. The part is aligned and has the size of a huge page. The program waits
    /// where it touches the part or changes its mappings, while the machine copies. An empty range
    /// only asks whether that can be done.
    ///
    /// # Errors
    /// `Unsupported` where the machine has no such call, `Denied` without CAP_SYS_NICE.
    fn collapse(&self, _part: Range) -> Result<CollapseOutcome> {
        Err(Error::Unsupported {
            action: "collapsing pages into huge pages",
            reason: "this machine has no MADV_COLLAPSE".to_owned(),
        })
    }

    /// Splits a transparent huge page into base pages, where they are. Returns whether no two of
    /// its pages belong to one folio afterwards: a page that somebody holds prevents it. An empty
    /// range only asks whether that can be done.
    ///
    /// # Errors
    /// `Unsupported` where the machine has no such call, `Denied` without CAP_SYS_NICE.
    fn split_folio(&self, _folio: Range) -> Result<bool> {
        Err(Error::Unsupported {
            action: "splitting huge pages",
            reason: "this machine has no MADV_COLD".to_owned(),
        })
    }

    /// Returns the memory policies that the program has set. Cost: a walk over its page tables,
    /// some 10 ms for a gibibyte of base pages.
    fn memory_policies(&self) -> Result<MemoryPolicies>;

    /// Moves a thread to one of these CPUs and then restores its former affinity (a *nudge*).
    /// Nothing is left to undo.
    fn nudge(&self, tid: u32, cpus: &Cpumask) -> Result<AffinityOutcome>;

    /// Restricts a thread to those of these CPUs that its cpuset allows, until the next call of
    /// this kind. Its former affinity is lost.
    fn pin(&self, tid: u32, cpus: &Cpumask) -> Result<AffinityOutcome>;

    /// Returns what the kernel's NUMA balancing has done for a thread; `None` where the machine
    /// does not report it. Cost: one file, some 10 us.
    ///
    /// # Errors
    /// `Gone` also if only the thread has exited.
    fn numa_activity(&self, _tid: u32) -> Result<Option<NumaActivity>> {
        Ok(None)
    }
}
