//! Samples processes again and again, as cheaply as the kernel permits.
//!
//! A process that did not run since the last sample costs its entry in the list of /proc and one
//! clock_gettime(2): its CPU time did not advance, so it is the same process, with the same memory
//! and threads. Properties that others may have changed (affinity, cpuset, control group) are read
//! in turns, so that a change is seen after at most [`LOOKS_BETWEEN`](tools::LOOKS_BETWEEN)
//! samples. A process that ran costs one file, and one for each thread; a thread that ran costs
//! another one.

mod files;
mod groups;
mod nodes;
mod process;
mod rights;
mod stalls;
#[cfg(test)]
mod tests;
mod threads;
mod tools;
mod traffic;
mod wanted;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use nodeward_machine::{Result, Watch};
use nodeward_model::{Glance, Nodemask, Pid, ProcessGlance, Wanted};

use self::files::Shelf;
use self::groups::Groups;
use self::nodes::Nodes;
use self::process::{First, Watched};
use self::rights::Rights;
use self::stalls::Stalls;
use self::tools::{Kernel, Tools};
use self::traffic::Traffic;
use self::wanted::Choice;

/// A process that starts during the watch is read when it is met again, or once it has used this
/// much CPU time: one that exits soon costs nothing.
const YOUNG_NS: u64 = 100_000_000;

/// A process that used less CPU time since its threads were read counts as one that did not run. A
/// program that polls for something uses that much, and the placement of its time slices does not
/// matter.
const SLIGHT_NS: u64 = 2_000_000;

/// A watch of this kernel's processes.
pub struct LinuxWatch {
    choice: Choice,
    tools: Tools,
    groups: Groups,
    nodes: Nodes,
    traffic: Traffic,
    stalls: Stalls,
    known: BTreeMap<Pid, Known>,
    slight_ns: u64,
    started: Instant,
}

/// A pid that was met.
struct Known {
    cpu_time_ns: u64,
    /// Its CPU time when its threads were read.
    looked_at_ns: u64,
    what: What,
}

/// The state of a pid.
enum What {
    /// It did not exist at the last sample.
    Young,
    /// It has no memory: a kernel thread, or a process that has exited.
    Nothing,
    /// It is not selected.
    Stranger,
    /// This process may not read it or act on it; the privilege that would help.
    Denied(String),
    /// It is watched.
    Process(Box<Watched>),
}

impl LinuxWatch {
    /// Starts a watch, on the clock that started at `started`.
    ///
    /// # Errors
    /// If a named control group does not exist.
    pub fn begin(wanted: &Wanted, started: Instant) -> Result<Self> {
        let root = Path::new("/");
        let rights = Rights::find(root);
        Self::with(
            Tools::new(root, Box::new(Kernel), Shelf::within_limits(), rights),
            wanted,
            started,
        )
    }

    fn with(tools: Tools, wanted: &Wanted, started: Instant) -> Result<Self> {
        let choice = Choice::new(wanted, &tools.root)?;
        let (groups, nodes) = (Groups::find(&tools), Nodes::default());
        let stalls = Stalls::of(wanted, &tools);
        Ok(Self {
            choice,
            tools,
            groups,
            nodes,
            traffic: Traffic::default(),
            stalls,
            known: BTreeMap::new(),
            slight_ns: SLIGHT_NS,
            started,
        })
    }

    /// Reads the process that has a pid now; `None` if there is none.
    fn look(&mut self, pid: Pid) -> Option<Known> {
        let before = self.known.remove(&pid);
        let cpu_time_ns = self.tools.calls.process_time_ns(pid)?;
        let known = |what| Some(Known { cpu_time_ns, looked_at_ns: cpu_time_ns, what });
        let Some(before) = before else {
            let at_once = self.tools.look == 1 || self.choice.names(pid) || cpu_time_ns >= YOUNG_NS;
            return if at_once { known(self.meet(pid)) } else { known(What::Young) };
        };
        // CPU time that went backwards belongs to another process.
        let due = self.tools.is_due(pid.number()) || cpu_time_ns < before.cpu_time_ns;
        let ran =
            cpu_time_ns < before.cpu_time_ns || cpu_time_ns - before.looked_at_ns >= self.slight_ns;
        let looked_at_ns = if ran { cpu_time_ns } else { before.looked_at_ns };
        match before.what {
            What::Process(process) => {
                let what = self.look_again(pid, process, ran);
                Some(Known { cpu_time_ns, looked_at_ns, what })
            }
            What::Stranger if ran && self.choice.is_by_look() => known(self.meet(pid)),
            What::Stranger if due || self.choice.names(pid) => known(self.meet(pid)),
            What::Nothing | What::Denied(_) if due => known(self.meet(pid)),
            What::Young => known(self.meet(pid)),
            what => Some(Known { cpu_time_ns, looked_at_ns, what }),
        }
    }

    /// Reads a watched process again, or another one that has its pid.
    fn look_again(&mut self, pid: Pid, mut process: Box<Watched>, ran: bool) -> What {
        let same = match ran {
            true => process.look(&mut self.tools),
            false => process.look_at_idle(&mut self.tools),
        };
        if !same {
            return self.meet(pid);
        }
        let user = match ran && self.choice.is_by_user() {
            true => self.user(pid),
            false => process.user(),
        };
        match self.choice.takes(pid, process.name(), user) {
            true => What::Process(process),
            false => What::Stranger,
        }
    }

    /// Reads a pid as if for the first time.
    fn meet(&mut self, pid: Pid) -> What {
        let Ok(first) = First::look(pid, &mut self.tools) else { return What::Nothing };
        if !first.stat.has_memory {
            return What::Nothing;
        }
        let user = if self.choice.is_by_user() { self.user(pid) } else { None };
        if !self.choice.takes(pid, &first.name, user) {
            return What::Stranger;
        }
        let Ok(process) = Watched::begin(pid, first, &mut self.tools) else {
            return What::Nothing;
        };
        let Tools { rights, root, .. } = &self.tools;
        match rights.missing(root, pid, process.user()) {
            Some(need) => What::Denied(need),
            None => What::Process(Box::new(process)),
        }
    }

    /// Returns the user that a process runs as.
    fn user(&self, pid: Pid) -> Option<u32> {
        use std::os::unix::fs::MetadataExt;
        let folder = self.tools.root.join(format!("proc/{pid}"));
        std::fs::metadata(folder).ok().map(|folder| folder.uid())
    }

    fn show(&mut self, process: &Watched, cpu_time_ns: u64, nodes: &Nodemask) -> ProcessGlance {
        let group = process.group();
        let frozen = group.is_some_and(|group| self.groups.is_frozen(group, &mut self.tools));
        process.glance(cpu_time_ns, frozen, &self.tools, nodes)
    }
}

impl Watch for LinuxWatch {
    fn glance(&mut self) -> Result<Glance> {
        self.tools.begin();
        let at_ns = u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let mut glance = Glance { at_ns, ..Glance::default() };
        glance.nodes = self.nodes.glance(&mut self.tools)?;
        self.traffic.look(&mut glance.nodes, &mut self.tools);
        glance.stalled_ns = self.stalls.look(&mut self.tools);
        let nodes = glance.nodes.keys().copied().collect();
        let mut known = BTreeMap::new();
        for pid in self.choice.candidates(&self.tools.root)? {
            let Some(now) = self.look(pid) else { continue };
            match &now.what {
                What::Process(process) => {
                    glance.processes.push(self.show(process, now.cpu_time_ns, &nodes));
                }
                What::Denied(need) => glance.denied.push((pid, need.clone())),
                What::Young | What::Nothing | What::Stranger => {}
            }
            known.insert(pid, now);
        }
        self.known = known;
        self.groups.end(self.tools.look);
        // A process all of whose threads have exited during the sample is exiting.
        glance.processes.retain(|process| !process.threads.is_empty());
        Ok(glance)
    }
}
