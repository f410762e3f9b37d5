//! Samples processes again and again, as cheaply as the kernel permits.
//!
//! A process that did not run since the last sample costs its entry in the list of /proc and one
//! clock_gettime(2): its CPU time did not advance, so it is the same process, with the same memory
//! and threads. A process that ran costs one file, and one for each thread; a thread that ran costs
//! another one. Properties that others may have changed (affinity, cpuset, control group) are read
//! in turns, so that a change is seen after at most
//! [`FULL_READ_INTERVAL`](context::FULL_READ_INTERVAL) samples of a process that runs, and
//! [`IDLE_READ_INTERVAL`](context::IDLE_READ_INTERVAL) of one that does not, or as soon as it does.

mod context;
mod files;
mod groups;
mod nodes;
mod permissions;
mod process;
mod selection;
mod stalls;
#[cfg(test)]
mod tests;
mod threads;
mod traffic;
mod vmstat;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use nodeward_machine::{ProcessWatch, Result};
use nodeward_model::{MachineSnapshot, Nodemask, Pid, ProcessFilter, ProcessSnapshot};

pub use self::files::OpenFileBudget;

use self::context::{RealCalls, WatchContext};
use self::groups::CgroupStates;
use self::nodes::NodeCounters;
use self::permissions::WatchPermissions;
use self::process::{FirstRead, ProcessRecord};
use self::selection::ProcessSelection;
use self::stalls::PressureStalls;
use self::traffic::MemoryTraffic;
use self::vmstat::Vmstat;

/// A process that starts during the watch is read when it is met again, or once it has used this
/// much CPU time: one that exits soon costs nothing.
const NEW_PROCESS_CPU_NS: u64 = 100_000_000;

/// A process that used less CPU time since its threads were read counts as one that did not run. A
/// program that polls for something uses that much, and the placement of its time slices does not
/// matter.
const IDLE_CPU_NS_MAX: u64 = 2_000_000;

/// A watch of this kernel's processes.
pub struct LinuxWatch {
    selection: ProcessSelection,
    context: WatchContext,
    groups: CgroupStates,
    nodes: NodeCounters,
    traffic: MemoryTraffic,
    stalls: PressureStalls,
    vmstat: Vmstat,
    known: BTreeMap<Pid, KnownPid>,
    idle_cpu_ns_max: u64,
    started: Instant,
}

/// A pid that was met.
struct KnownPid {
    cpu_time_ns: u64,
    /// Its CPU time when its threads were read.
    read_at_cpu_ns: u64,
    kind: PidKind,
}

/// The state of a pid.
enum PidKind {
    /// It did not exist at the last sample.
    New,
    /// It has no memory: a kernel thread, or a process that has exited.
    NoMemory,
    /// It is not selected.
    Unselected,
    /// This process may not read it or act on it; the privilege that would help.
    Denied(String),
    /// It is watched.
    Process(Box<ProcessRecord>),
}

impl LinuxWatch {
    /// Starts a watch, on the clock that started at `started`.
    ///
    /// # Errors
    /// If a named control group does not exist.
    pub fn begin(
        wanted: &ProcessFilter,
        started: Instant,
        files: Arc<OpenFileBudget>,
    ) -> Result<Self> {
        let root = Path::new("/");
        let rights = WatchPermissions::detect(root);
        Self::with(WatchContext::new(root, Box::new(RealCalls), files, rights), wanted, started)
    }

    fn with(context: WatchContext, wanted: &ProcessFilter, started: Instant) -> Result<Self> {
        let choice = ProcessSelection::new(wanted, &context.root)?;
        let (groups, nodes) = (CgroupStates::find(&context), NodeCounters::default());
        let stalls = PressureStalls::for_filter(wanted, &context);
        Ok(Self {
            selection: choice,
            context,
            groups,
            nodes,
            traffic: MemoryTraffic::default(),
            stalls,
            vmstat: Vmstat::default(),
            known: BTreeMap::new(),
            idle_cpu_ns_max: IDLE_CPU_NS_MAX,
            started,
        })
    }

    /// Reads the process that has a pid now; `None` if there is none.
    fn classify(&mut self, pid: Pid) -> Option<KnownPid> {
        let before = self.known.remove(&pid);
        let cpu_time_ns = self.context.calls.process_time_ns(pid)?;
        let known = |what| Some(KnownPid { cpu_time_ns, read_at_cpu_ns: cpu_time_ns, kind: what });
        let Some(before) = before else {
            let at_once = self.context.snapshot_number == 1
                || self.selection.is_named(pid)
                || cpu_time_ns >= NEW_PROCESS_CPU_NS;
            return if at_once { known(self.classify_new(pid)) } else { known(PidKind::New) };
        };
        // CPU time that went backwards belongs to another process.
        let is_other = cpu_time_ns < before.cpu_time_ns;
        let ran = is_other || cpu_time_ns - before.read_at_cpu_ns >= self.idle_cpu_ns_max;
        let due = is_other || self.context.is_due(pid.number(), ran);
        let looked_at_ns = if ran { cpu_time_ns } else { before.read_at_cpu_ns };
        match before.kind {
            PidKind::Process(process) => {
                let what = self.refresh(pid, process, ran);
                Some(KnownPid { cpu_time_ns, read_at_cpu_ns: looked_at_ns, kind: what })
            }
            PidKind::Unselected if ran && self.selection.needs_process_data() => {
                known(self.classify_new(pid))
            }
            PidKind::Unselected if due || self.selection.is_named(pid) => {
                known(self.classify_new(pid))
            }
            PidKind::NoMemory | PidKind::Denied(_) if due => known(self.classify_new(pid)),
            PidKind::New => known(self.classify_new(pid)),
            what => Some(KnownPid { cpu_time_ns, read_at_cpu_ns: looked_at_ns, kind: what }),
        }
    }

    /// Reads a watched process again, or another one that has its pid.
    fn refresh(&mut self, pid: Pid, mut process: Box<ProcessRecord>, ran: bool) -> PidKind {
        let same = match ran {
            true => process.refresh(&mut self.context),
            false => process.refresh_idle(&mut self.context),
        };
        if !same {
            return self.classify_new(pid);
        }
        let user = match ran && self.selection.selects_users() {
            true => self.user(pid),
            false => process.user(),
        };
        match self.selection.matches(pid, process.name(), user) {
            true => PidKind::Process(process),
            false => PidKind::Unselected,
        }
    }

    /// Reads a pid as if for the first time.
    fn classify_new(&mut self, pid: Pid) -> PidKind {
        let Ok(first) = FirstRead::read(pid, &mut self.context) else { return PidKind::NoMemory };
        if !first.stat.has_memory {
            return PidKind::NoMemory;
        }
        let user = if self.selection.selects_users() { self.user(pid) } else { None };
        if !self.selection.matches(pid, &first.name, user) {
            return PidKind::Unselected;
        }
        let Ok(process) = ProcessRecord::begin(pid, first, &mut self.context) else {
            return PidKind::NoMemory;
        };
        let WatchContext { permissions: rights, root, .. } = &self.context;
        match rights.missing_privilege(root, pid, process.user()) {
            Some(need) => PidKind::Denied(need),
            None => PidKind::Process(Box::new(process)),
        }
    }

    /// Returns the user that a process runs as.
    fn user(&self, pid: Pid) -> Option<u32> {
        use std::os::unix::fs::MetadataExt;
        let folder = self.context.root.join(format!("proc/{pid}"));
        std::fs::metadata(folder).ok().map(|folder| folder.uid())
    }

    fn process_snapshot(
        &mut self,
        process: &ProcessRecord,
        cpu_time_ns: u64,
        nodes: &Nodemask,
    ) -> ProcessSnapshot {
        let group = process.group();
        let frozen = group.is_some_and(|group| self.groups.is_frozen(group, &mut self.context));
        process.snapshot(cpu_time_ns, frozen, &self.context, nodes)
    }
}

impl ProcessWatch for LinuxWatch {
    fn snapshot(&mut self) -> Result<MachineSnapshot> {
        self.context.begin_snapshot();
        let at_ns = u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let mut snapshot = MachineSnapshot { at_ns, ..MachineSnapshot::default() };
        snapshot.nodes = self.nodes.snapshot(&mut self.context)?;
        self.traffic.update(&mut snapshot.nodes, &mut self.context);
        let vmstat = self.vmstat.read(&mut self.context);
        snapshot.pressure_stall_ns = self.stalls.read_ns(&vmstat, &mut self.context);
        snapshot.migrated_pages = vmstat::migrated_pages(&vmstat);
        snapshot.balancing_pages = vmstat::balancing_pages(&vmstat);
        let nodes = snapshot.nodes.keys().copied().collect();
        let mut known = BTreeMap::new();
        for pid in self.selection.candidates(&self.context.root)? {
            let Some(now) = self.classify(pid) else { continue };
            match &now.kind {
                PidKind::Process(process) => {
                    snapshot.processes.push(self.process_snapshot(
                        process,
                        now.cpu_time_ns,
                        &nodes,
                    ));
                }
                PidKind::Denied(need) => snapshot.denied.push((pid, need.clone())),
                PidKind::New | PidKind::NoMemory | PidKind::Unselected => {}
            }
            known.insert(pid, now);
        }
        self.known = known;
        self.groups.forget_unused(self.context.snapshot_number);
        // A process all of whose threads have exited during the sample is exiting.
        snapshot.processes.retain(|process| !process.threads.is_empty());
        Ok(snapshot)
    }
}
