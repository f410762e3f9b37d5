//! Threads of the fake machine, samples of all processes, and nudges.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex};

use nodeward_model::{
    CpuId, Cpumask, Glance, Name, NodeGlance, NodeId, Nodemask, Page, Pid, Placed, ProcessGlance,
    Rival, Room, ThreadGlance, Topology, Wanted,
};

use super::{PAGE_BYTES, Paper, Sheet, Sheets, lock};
use crate::contract::{Life, Machine, Watch};
use crate::{Error, Result};

/// A thread of a process of the fake machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PaperThread {
    /// The CPU on which it ran last.
    pub cpu: CpuId,
    /// The CPUs that it may run on.
    pub cpus: Cpumask,
    /// CPU time used so far, in nanoseconds.
    pub ran_ns: u64,
    /// CPU time that it uses in 1000 nanoseconds of machine time, in nanoseconds.
    pub busy_milli: u64,
    /// Time that it has waited for a CPU, in nanoseconds.
    pub waited_ns: u64,
    /// Time that it waits in 1000 nanoseconds of machine time, in nanoseconds.
    pub waits_milli: u64,
}

impl PaperThread {
    /// Returns a new thread on a CPU, with its affinity and its CPU time in 1000 nanoseconds.
    pub fn new(cpu: CpuId, cpus: Cpumask, busy_milli: u64) -> Self {
        Self { cpu, cpus, ran_ns: 0, busy_milli, waited_ns: 0, waits_milli: 0 }
    }
}

/// External conditions of a fake machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Weather {
    /// Time for which some task was stalled for lack of memory, in nanoseconds; `None` if the
    /// machine does not count it.
    pub stalled_ns: Option<u64>,
    /// Time for which some task is stalled in 1000 nanoseconds of machine time, in nanoseconds.
    pub stalls_milli: u64,
    /// Pages that were meant for each node and were allocated elsewhere.
    pub foreign: BTreeMap<NodeId, u64>,
    /// For nodes that count their memory traffic: bytes per second that it carries, and its
    /// bandwidth.
    pub traffic: BTreeMap<NodeId, [u64; 2]>,
    /// Bytes that the memory of each node has carried.
    pub carried: BTreeMap<NodeId, u64>,
}

impl Weather {
    pub(super) fn pass(&mut self, ns: u64) {
        if let Some(stalled_ns) = &mut self.stalled_ns {
            *stalled_ns += ns * self.stalls_milli / 1000;
        }
        for (&node, &[bytes_per_s, _]) in &self.traffic {
            let bytes = u128::from(bytes_per_s) * u128::from(ns) / 1_000_000_000;
            *self.carried.entry(node).or_default() += bytes as u64;
        }
    }

    fn node(&self, node: NodeId, room: Room, pages: u64) -> NodeGlance {
        let traffic = self.traffic.get(&node);
        NodeGlance {
            room,
            pages,
            foreign_pages: self.foreign.get(&node).copied().unwrap_or(0),
            carried_bytes: traffic.map(|_| self.carried.get(&node).copied().unwrap_or(0)),
            bandwidth_bytes_per_s: traffic.map(|&[_, most]| most),
        }
    }
}

impl Sheet {
    pub(super) fn name(&self) -> Name {
        if self.name.is_empty() { "paper".into() } else { self.name.clone() }
    }

    /// Advances its threads by `ns` nanoseconds.
    pub(super) fn run(&mut self, ns: u64) {
        if self.frozen || self.life() == Life::Exited {
            return;
        }
        for thread in self.threads.values_mut() {
            thread.ran_ns += ns * thread.busy_milli / 1000;
            thread.waited_ns += ns * thread.waits_milli / 1000;
        }
        if let Some(left_ns) = &mut self.lets_go_ns {
            *left_ns = left_ns.saturating_sub(ns);
            if *left_ns == 0 {
                self.pinned.clear();
                let landed = std::mem::take(&mut self.landing);
                self.pages.extend(landed.into_iter().map(|(page, node)| (page, Page::on(node))));
            }
        }
    }

    /// Moves a thread to the first of these CPUs that its affinity allows. With `pin` (the CPUs of
    /// the machine) it sets the affinity to those of these CPUs that the machine has.
    pub(super) fn place(&mut self, tid: u32, cpus: &Cpumask, pin: Option<&Cpumask>) -> Placed {
        let number = self.placements;
        self.placements += 1;
        let change = self.changes_affinity.clone().filter(|&(at, _)| at == number);
        let Some(thread) = self.threads.get_mut(&tid) else { return Placed::Gone };
        let fit = pin.unwrap_or(&thread.cpus).and(cpus);
        let Some(first) = fit.first() else { return Placed::NotAllowed };
        if !fit.contains(thread.cpu) {
            thread.cpu = first;
        }
        if let Some((_, changed)) = change {
            self.threads.values_mut().for_each(|thread| thread.cpus = changed.clone());
            return Placed::Changed;
        }
        if pin.is_some() {
            thread.cpus = fit;
        }
        Placed::Done
    }

    fn glance(&self, pid: Pid, nodes: &Nodemask) -> ProcessGlance {
        let thread = |(&tid, thread): (&u32, &PaperThread)| ThreadGlance {
            tid,
            cpu: thread.cpu,
            cpu_time_ns: thread.ran_ns,
            waited_ns: thread.waited_ns,
            cpus: Arc::new(thread.cpus.clone()),
        };
        let forbidden: Nodemask = self.forbidden.iter().copied().collect();
        ProcessGlance {
            pid,
            name: self.name(),
            started_ticks: self.started_ticks,
            cpu_time_ns: self.ended_ns + self.threads.values().map(|t| t.ran_ns).sum::<u64>(),
            children_time_ns: self.children_ns,
            own_bytes: self.residency().values().sum::<u64>() * PAGE_BYTES,
            memory_nodes: nodes.without(&forbidden),
            frozen: self.frozen,
            threads: self.threads.iter().map(thread).collect(),
        }
    }
}

/// A reader of the processes of a fake machine.
struct PaperWatch {
    sheets: Arc<Sheets>,
    clock_ns: Arc<Mutex<u64>>,
    offline: Arc<Mutex<BTreeSet<NodeId>>>,
    weather: Arc<Mutex<Weather>>,
    topology: Result<Topology>,
    wanted: Wanted,
}

impl Paper {
    /// Ends a process at once.
    pub fn end(&self, pid: Pid) {
        if let Some(sheet) = lock(&self.sheets).remove(&pid) {
            lock(&sheet).fate = Some((0, Life::Exited));
        }
    }

    /// Changes the state of a process; does nothing if there is none.
    pub fn change(&self, pid: Pid, change: impl FnOnce(&mut Sheet)) {
        if let Some(sheet) = lock(&self.sheets).get(&pid) {
            change(&mut lock(sheet));
        }
    }

    /// Takes a node offline or brings it back. An offline node runs no thread and takes no pages.
    pub fn set_offline(&self, node: NodeId, is_off: bool) {
        let mut offline = lock(&self.offline);
        if is_off {
            offline.insert(node)
        } else {
            offline.remove(&node)
        };
    }

    /// Sets the other balancers that move memory or threads.
    pub fn set_rivals(&self, rivals: Vec<Rival>) {
        *lock(&self.rivals) = rivals;
    }

    /// Changes the external conditions from now on.
    pub fn set_weather(&self, change: impl FnOnce(&mut Weather)) {
        change(&mut lock(&self.weather));
    }

    /// Sets the clock; it may go backwards.
    pub fn set_clock_ns(&self, ns: u64) {
        *lock(&self.clock_ns) = ns;
    }

    pub(super) fn look(&self, wanted: &Wanted) -> Box<dyn Watch> {
        Box::new(PaperWatch {
            sheets: Arc::clone(&self.sheets),
            clock_ns: Arc::clone(&self.clock_ns),
            offline: Arc::clone(&self.offline),
            weather: Arc::clone(&self.weather),
            topology: self.topology(),
            wanted: wanted.clone(),
        })
    }
}

impl PaperWatch {
    /// All processes of the fake machine run as root, in the root control group.
    fn wants(&self, pid: Pid, sheet: &Sheet) -> bool {
        let Wanted { pids, names, users, cgroups } = &self.wanted;
        self.wanted.is_everything()
            || pids.contains(&pid)
            || names.contains(&sheet.name())
            || users.contains(&0)
            || cgroups.iter().any(|group| group == Path::new("/"))
    }

    fn nodes(&self, topology: &Topology) -> BTreeMap<NodeId, NodeGlance> {
        let mut nodes = BTreeMap::new();
        for (&id, node) in &topology.nodes {
            let pages = node.memory_bytes.unwrap_or(0) / PAGE_BYTES;
            let room = Room { free_pages: pages, cold_pages: 0 };
            nodes.insert(id, lock(&self.weather).node(id, room, pages));
        }
        for sheet in lock(&self.sheets).values() {
            for (id, &free_pages) in &lock(sheet).free {
                if let Some(node) = nodes.get_mut(id) {
                    node.room.free_pages = free_pages;
                }
            }
        }
        nodes.retain(|node, _| !lock(&self.offline).contains(node));
        nodes
    }
}

impl Watch for PaperWatch {
    fn glance(&mut self) -> Result<Glance> {
        let topology = self.topology.as_ref().map_err(|_| Error::Unsupported {
            what: "a topology on paper",
            why: "the description cannot be read".to_owned(),
        })?;
        let nodes = self.nodes(topology);
        let ids: Nodemask = nodes.keys().copied().collect();
        let (mut processes, mut denied) = (Vec::new(), Vec::new());
        for (&pid, sheet) in lock(&self.sheets).iter() {
            let mut sheet = lock(sheet);
            if sheet.life() == Life::Exited || !self.wants(pid, &sheet) {
                continue;
            }
            sheet.glances += 1;
            match &sheet.denied {
                Some(need) => denied.push((pid, need.clone())),
                None => processes.push(sheet.glance(pid, &ids)),
            }
        }
        let stalled_ns = lock(&self.weather).stalled_ns;
        Ok(Glance { at_ns: *lock(&self.clock_ns), processes, denied, nodes, stalled_ns })
    }
}

#[cfg(test)]
mod tests {
    use nodeward_model::Page;

    use super::*;
    use crate::Process;

    fn pid(number: u32) -> Pid {
        Pid::new(number).unwrap()
    }

    fn cpus(list: &str) -> Cpumask {
        list.parse().unwrap()
    }

    /// Returns a machine with two pages on node 0 and a thread on CPU 0 of four, which runs half
    /// the time.
    fn machine() -> (Paper, Arc<dyn Process>) {
        let paper = Paper::shaped(true, "2n 2c 1t 4GiB");
        let (cpu, cpus) = (CpuId(0), cpus("0-3"));
        let thread = PaperThread::new(cpu, cpus, 500);
        let sheet = Sheet {
            name: "worker".into(),
            threads: [(7, thread)].into(),
            ..Sheet::of(&[Page::on(NodeId(0)); 2])
        };
        paper.start(pid(7), sheet);
        let process = paper.hold(pid(7)).unwrap();
        (paper, process)
    }

    fn look(paper: &Paper, wanted: &Wanted) -> Glance {
        paper.watch(wanted).unwrap().glance().unwrap()
    }

    /// Goal: CPU time grows by the thread's share of the time, and not while it is frozen.
    #[test]
    fn time_is_told() {
        let (paper, _) = machine();
        paper.sleep_ns(1_000);
        paper.change(pid(7), |sheet| sheet.frozen = true);
        paper.sleep_ns(1_000);
        let glance = look(&paper, &Wanted::default());
        let [process] = &glance.processes[..] else { panic!("{glance:?}") };
        assert_eq!((process.cpu_time_ns, process.own_bytes), (500, 2 * 4096)); // of 1000 ns a half
        assert!(process.frozen);
        assert_eq!(glance.at_ns, 2_000);
        assert_eq!(glance.nodes.len(), 2);
    }

    /// Goal: a nudge restores the affinity, a pin does not, and a change by the program in between
    /// stays in force.
    #[test]
    fn threads_are_sent_elsewhere() {
        let (paper, process) = machine();
        let thread = || paper.sheet(pid(7)).unwrap().threads[&7].clone();
        assert_eq!(process.nudge(7, &cpus("2-3")).unwrap(), Placed::Done);
        assert_eq!((thread().cpu, thread().cpus), (CpuId(2), cpus("0-3")));
        assert_eq!(process.nudge(8, &cpus("2-3")).unwrap(), Placed::Gone);
        assert_eq!(process.nudge(7, &cpus("9")).unwrap(), Placed::NotAllowed);
        paper.change(pid(7), |sheet| sheet.changes_affinity = Some((3, cpus("0-1"))));
        assert_eq!(process.nudge(7, &cpus("3")).unwrap(), Placed::Changed);
        assert_eq!(thread().cpus, cpus("0-1"));
        assert_eq!(process.pin(7, &cpus("1-3")).unwrap(), Placed::Done);
        assert_eq!((thread().cpu, thread().cpus), (CpuId(3), cpus("1-3")));
    }

    /// Goal: the fake machine passes the bodies that read processes.
    #[test]
    fn paper_conforms() {
        use crate::conformance::watching::{ALL, Stage, two_sets};
        let (paper, _) = machine();
        let sets = two_sets(&paper).unwrap();
        let name = "worker".into();
        let stage =
            Stage { machine: &paper, pid: pid(7), name, busy: 7, sets, own_bytes_min: 8192 };
        for (name, body) in ALL {
            println!("{name}");
            body(&stage);
        }
    }

    /// Goal: processes that were not selected are left out, denied ones are listed apart, and
    /// offline nodes are left out.
    #[test]
    fn looks_are_selective() {
        let (paper, _) = machine();
        paper.start(pid(8), Sheet { denied: Some("be root".to_owned()), ..Sheet::default() });
        let glance = look(&paper, &Wanted::default());
        assert_eq!(glance.denied, [(pid(8), "be root".to_owned())]);
        assert!(matches!(paper.hold(pid(8)), Err(Error::Denied { .. })));
        let other = Wanted { names: vec!["other".into()], ..Wanted::default() };
        assert_eq!(look(&paper, &other).processes, []);
        paper.set_offline(NodeId(1), true);
        assert_eq!(look(&paper, &Wanted::default()).nodes.len(), 1);
        assert_eq!(paper.usable_cpus().unwrap(), cpus("0-1"));
        paper.end(pid(7));
        assert_eq!(look(&paper, &Wanted::default()).processes, []);
    }
}
