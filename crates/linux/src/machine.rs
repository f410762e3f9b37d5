//! This kernel as a machine.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use nodeward_machine::{
    AccessSource, AccessSourceKind, AccessSourceStatus, Capabilities, Error, Machine,
    NumaBalancingSwitch, Process, ProcessWatch, Result, ThreadRecords, WorkerRegistry,
};
use nodeward_model::{
    CpuId, Cpumask, NodeHeadroom, NodeId, OtherBalancer, Pid, ProcessFilter, Topology, ZoneLists,
};
use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

use crate::access_queue::{AccessQueue, QueuedAccesses};
use crate::confinement::PrivilegedAction;
use crate::frames::LazyFrameMap;
use crate::nudge::journal::{NudgeJournal, RestoredThread};
use crate::page_tables::PageTables;
use crate::pidfd::{has_exited, open_pidfd};
use crate::populated;
use crate::process::{LinuxProcess, open_file, refuse_kernel_thread};
use crate::procfs::privileges::Privileges;
use crate::procfs::{cpu_time, page_lists, swaps, zoneinfo};
use crate::thread_records::PerfThreadRecords;
use crate::watch::{LinuxWatch, OpenFileBudget};
use crate::{access, load, numa_balancing, other_balancers, sys, sysfs};

/// The source of accesses that are entered from outside.
const QUEUE_STATUS: AccessSourceStatus = AccessSourceStatus {
    kind: AccessSourceKind::Perf,
    obstacle: None,
    blind_to: "what its sampler does not sample",
    price: "what its sampler costs",
};

/// This kernel.
#[derive(Debug)]
pub struct Linux {
    page_bytes: u64,
    frames: Arc<LazyFrameMap>,
    /// Probed when it is first asked for: the kernel empties lists of all CPUs, some 0.1 ms.
    move_shared: OnceLock<bool>,
    pagemap_scan: bool,
    nudge_journal: Arc<NudgeJournal>,
    access_queue: Option<Arc<AccessQueue>>,
    /// Whether the caller is a library in a program of others.
    in_program: bool,
    started: Instant,
}

impl Linux {
    /// Probes the features of this kernel that every caller needs.
    pub fn open() -> Self {
        let page_bytes = rustix::param::page_size() as u64;
        Self {
            page_bytes,
            frames: Arc::new(LazyFrameMap::new(page_bytes)),
            move_shared: OnceLock::new(),
            pagemap_scan: populated::is_available(Path::new("/")),
            nudge_journal: Arc::default(),
            access_queue: None,
            in_program: false,
            started: Instant::now(),
        }
    }

    /// As [`Linux::open`], for a library in a program. This process is one to be looked after like
    /// any other: the costs that are told are those of the calling thread alone, no pid is told as
    /// the caller's own, and limits of the process stay as they are.
    pub fn open_in_program() -> Self {
        Self { in_program: true, ..Self::open() }
    }

    /// Uses the accesses that are entered in the returned buffer, from now on, as those that the
    /// machine counts.
    pub fn access_queue(&mut self) -> Arc<AccessQueue> {
        Arc::clone(self.access_queue.get_or_insert_default())
    }

    /// Records each nudge in a file while it is in progress, from now on, so that a kill -9 leaves
    /// no thread with a narrowed affinity for ever. The next call with the same file undoes such a
    /// nudge and returns the thread. Only one process at a time may use a file.
    ///
    /// # Errors
    /// If the file cannot be opened, read or emptied.
    pub fn open_nudge_journal(&self, path: &Path) -> io::Result<Option<RestoredThread>> {
        self.nudge_journal.open(path, Path::new("/"))
    }
}

/// The kernel checks the privilege before it reads the pages, so a call without pages tests it.
fn can_move_shared() -> bool {
    sys::move_pages(0, &[], &[], &mut [], true).is_ok()
}

impl WorkerRegistry for Linux {}

impl Machine for Linux {
    fn page_bytes(&self) -> u64 {
        self.page_bytes
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            move_shared: *self.move_shared.get_or_init(can_move_shared),
            frame_numbers: self.frames.get().is_some(),
            pagemap_scan: self.pagemap_scan,
        }
    }

    fn topology(&self) -> Result<Topology> {
        sysfs::read_topology(Path::new("/"))
    }

    fn headroom(&self) -> Result<BTreeMap<NodeId, NodeHeadroom>> {
        zoneinfo::headroom(Path::new("/"))
    }

    fn page_lists(&self) -> Result<Vec<ZoneLists>> {
        page_lists::zones(Path::new("/"))
    }

    fn free_huge_pages(&self, node: NodeId, bytes: u64) -> Option<u64> {
        sysfs::huge_pages::available(Path::new("/"), node, bytes)
    }

    fn frames_end(&self) -> Option<u64> {
        Some(self.frames.get()?.end())
    }

    fn usable_cpus(&self) -> Result<Cpumask> {
        let cpus = Privileges::of_this_thread(Path::new("/"))?.cpus;
        cpus.map_or_else(|| Ok(self.topology()?.cpus), Ok)
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn sleep_ns(&self, ns: u64) {
        std::thread::sleep(Duration::from_nanos(ns));
    }

    fn yield_to_waking_threads(&self) {
        // Where this is not known or not permitted, threads of the target wait a little longer.
        sys::ask_for_long_slices().ok();
    }

    fn renice_current_thread(&self, nice: i8) -> Option<i8> {
        // For the kernel both calls are about one thread.
        let before = rustix::process::getpriority_process(None).ok()?;
        rustix::process::setpriority_process(None, i32::from(nice)).ok()?;
        i8::try_from(before).ok()
    }

    fn pin_current_thread(&self, cpu: CpuId) {
        let number = cpu.0 as usize;
        if number < CpuSet::MAX_CPU {
            let mut only = CpuSet::new();
            only.set(number);
            // A CPU that may not be used leaves the thread where it is: slower, never wrong.
            sched_setaffinity(None, &only).ok();
        }
    }

    fn open_process(&self, pid: Pid) -> Result<Arc<dyn Process>> {
        let folder = PathBuf::from(format!("/proc/{pid}"));
        let pidfd = open_pidfd(pid)?;
        refuse_kernel_thread(pid, &folder)?;
        let open = |name| {
            open_file(pid, folder.join(name), File::options().read(true), PrivilegedAction::Files)
        };
        let process = LinuxProcess {
            pid,
            maps: Mutex::new(open("maps")?),
            page_tables: PageTables::new(
                pid,
                open("pagemap")?,
                Arc::clone(&self.frames),
                swaps::has_areas(Path::new("/")),
                self.page_bytes,
            ),
            folder,
            pidfd,
            pagemap_scan: self.pagemap_scan,
            nudge_journal: Arc::clone(&self.nudge_journal),
            page_bytes: self.page_bytes,
        };
        // The pid was still held after the files were opened, so they belong to that process.
        if has_exited(&process.pidfd) { Err(Error::Gone(pid)) } else { Ok(Arc::new(process)) }
    }

    /// Beyond the contract: this process itself is among those that are seen. The limit on open
    /// files is raised to its hard limit, because samples are cheaper with more files kept open.
    fn watch(&self, wanted: &ProcessFilter) -> Result<Box<dyn ProcessWatch>> {
        let files = match self.in_program {
            true => OpenFileBudget::within_rlimit(),
            false => OpenFileBudget::from_rlimit(),
        };
        Ok(Box::new(LinuxWatch::begin(wanted, self.started, files)?))
    }

    fn other_balancers(&self) -> Result<Vec<OtherBalancer>> {
        other_balancers::find(Path::new("/"))
    }

    fn hold_numa_balancing(&self) -> Result<Option<Box<dyn NumaBalancingSwitch>>> {
        let held = numa_balancing::hold(Path::new("/"))?;
        Ok(held.map(|switch| Box::new(switch) as Box<dyn NumaBalancingSwitch>))
    }

    /// Samples that the user gives come first: nothing else is measured as the user wants it.
    fn access_sources(&self) -> Vec<AccessSourceStatus> {
        let mut sources = access::statuses(Path::new("/"));
        if self.access_queue.is_some() {
            sources.retain(|status| status.kind != AccessSourceKind::Perf);
            sources.insert(0, QUEUE_STATUS);
        }
        sources
    }

    fn open_access_source(&self, kind: AccessSourceKind) -> Result<Box<dyn AccessSource>> {
        match (kind, &self.access_queue) {
            (AccessSourceKind::Perf, Some(queue)) => {
                Ok(Box::new(QueuedAccesses::new(Arc::clone(queue))))
            }
            _ => access::open(kind, Path::new("/")),
        }
    }

    fn open_thread_records(&self) -> Result<Box<dyn ThreadRecords>> {
        Ok(Box::new(PerfThreadRecords::open()?))
    }

    fn busy_ns(&self, cpus: &[CpuId]) -> Option<u64> {
        let times = cpu_time::read(Path::new("/")).ok()?;
        let busy = cpus.iter().filter_map(|cpu| times.get(cpu)).map(|time| time.busy_ticks);
        Some(busy.sum::<u64>().saturating_mul(load::ns_per_tick()))
    }

    fn idle_ns(&self) -> Option<u64> {
        cpu_time::idle_ns(Path::new("/"))
    }

    fn own_cpu_time_ns(&self) -> u64 {
        let time = clock_gettime(match self.in_program {
            true => ClockId::ThreadCPUTime,
            false => ClockId::ProcessCPUTime,
        });
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        seconds * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
    }

    fn own_pid(&self) -> Option<Pid> {
        (!self.in_program).then(Pid::of_this_process)
    }
}
