//! Samples of all processes of the fake machine, what tests change on it, and nudges.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex};

use nodeward_model::{
    AffinityOutcome, Cpumask, MachineSnapshot, Name, NodeHeadroom, NodeId, NodeSnapshot, Nodemask,
    OtherBalancer, Page, Pid, ProcessFilter, ProcessSnapshot, ThreadSnapshot, Topology,
};

use super::counters::FakeCounters;
use super::lock::lock;
use super::machine::FakeMachine;
use super::numa_balancing::FakeNumaBalancing;
use super::process::{FakeProcess, FakeProcesses, PAGE_BYTES};
use super::thread::FakeThread;
use crate::contract::{Liveness, Machine, ProcessWatch};
use crate::{Error, Result};

impl FakeProcess {
    pub(super) fn name(&self) -> Name {
        if self.name.is_empty() { "paper".into() } else { self.name.clone() }
    }

    /// Advances its threads by `ns` nanoseconds.
    pub(super) fn advance(&mut self, ns: u64) {
        if self.frozen || self.liveness() == Liveness::Exited {
            return;
        }
        for thread in self.threads.values_mut() {
            thread.cpu_time_ns += ns * thread.run_permille / 1000;
            thread.waited_ns += ns * thread.wait_permille / 1000;
        }
        if let Some(left_ns) = &mut self.release_after_ns {
            *left_ns = left_ns.saturating_sub(ns);
            if *left_ns == 0 {
                self.pinned.clear();
                let landed = std::mem::take(&mut self.in_flight);
                self.pages.extend(landed.into_iter().map(|(page, node)| (page, Page::on(node))));
            }
        }
    }

    /// Moves a thread to the first of these CPUs that its affinity allows. With `pin` (the CPUs of
    /// the machine) it sets the affinity to those of these CPUs that the machine has.
    pub(super) fn set_affinity(
        &mut self,
        tid: u32,
        cpus: &Cpumask,
        pin: Option<&Cpumask>,
    ) -> AffinityOutcome {
        let number = self.affinity_calls;
        self.affinity_calls += 1;
        let change = self.affinity_change.clone().filter(|&(at, _)| at == number);
        let Some(thread) = self.threads.get_mut(&tid) else { return AffinityOutcome::Gone };
        let fit = pin.unwrap_or(&thread.cpus).and(cpus);
        let Some(first) = fit.first() else { return AffinityOutcome::NotAllowed };
        if !fit.contains(thread.cpu) {
            thread.cpu = first;
        }
        if let Some((_, changed)) = change {
            self.threads.values_mut().for_each(|thread| thread.cpus = changed.clone());
            return AffinityOutcome::Changed;
        }
        if pin.is_some() {
            thread.cpus = fit;
        }
        AffinityOutcome::Done
    }

    fn snapshot(&self, pid: Pid, nodes: &Nodemask) -> ProcessSnapshot {
        let thread = |(&tid, thread): (&u32, &FakeThread)| ThreadSnapshot {
            tid,
            cpu: thread.cpu,
            cpu_time_ns: thread.cpu_time_ns,
            waited_ns: thread.waited_ns,
            cpus: Arc::new(thread.cpus.clone()),
        };
        let is_seen = |(tid, _): &(&u32, &FakeThread)| !self.unseen_threads.contains(tid);
        let forbidden: Nodemask = self.forbidden_nodes.iter().copied().collect();
        ProcessSnapshot {
            pid,
            name: self.name(),
            started_ticks: self.started_ticks,
            cpu_time_ns: self.ended_threads_ns
                + self.threads.values().map(|t| t.cpu_time_ns).sum::<u64>(),
            children_cpu_time_ns: self.children_cpu_time_ns,
            non_file_bytes: self.residency().values().sum::<u64>() * PAGE_BYTES,
            memory_nodes: nodes.without(&forbidden),
            frozen: self.frozen,
            threads: self.threads.iter().filter(is_seen).map(thread).collect(),
        }
    }
}

/// A reader of the processes of a fake machine.
struct FakeWatch {
    processes: Arc<FakeProcesses>,
    clock_ns: Arc<Mutex<u64>>,
    offline: Arc<Mutex<BTreeSet<NodeId>>>,
    counters: Arc<Mutex<FakeCounters>>,
    topology: Result<Topology>,
    filter: ProcessFilter,
}

impl FakeMachine {
    /// Ends a process at once.
    pub fn kill(&self, pid: Pid) {
        if let Some(process) = lock(&self.processes).remove(&pid) {
            lock(&process).end_at_call = Some((0, Liveness::Exited));
        }
    }

    /// Changes the state of a process; does nothing if there is none.
    pub fn update_process(&self, pid: Pid, change: impl FnOnce(&mut FakeProcess)) {
        if let Some(process) = lock(&self.processes).get(&pid) {
            change(&mut lock(process));
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
    pub fn set_other_balancers(&self, rivals: Vec<OtherBalancer>) {
        *lock(&self.other_balancers) = rivals;
    }

    /// Returns the kernel's NUMA balancing, after a change.
    pub fn update_numa_balancing(
        &self,
        change: impl FnOnce(&mut FakeNumaBalancing),
    ) -> FakeNumaBalancing {
        let mut balancing = lock(&self.numa_balancing);
        change(&mut balancing);
        balancing.clone()
    }

    /// Changes the external conditions from now on.
    pub fn update_counters(&self, change: impl FnOnce(&mut FakeCounters)) {
        change(&mut lock(&self.counters));
    }

    /// Sets the clock; it may go backwards.
    pub fn set_clock_ns(&self, ns: u64) {
        *lock(&self.clock_ns) = ns;
    }

    pub(super) fn new_watch(&self, wanted: &ProcessFilter) -> Box<dyn ProcessWatch> {
        Box::new(FakeWatch {
            processes: Arc::clone(&self.processes),
            clock_ns: Arc::clone(&self.clock_ns),
            offline: Arc::clone(&self.offline),
            counters: Arc::clone(&self.counters),
            topology: self.topology(),
            filter: wanted.clone(),
        })
    }
}

impl FakeWatch {
    /// All processes of the fake machine run as root, in the root control group.
    fn matches(&self, pid: Pid, process: &FakeProcess) -> bool {
        let ProcessFilter { pids, names, users, cgroups } = &self.filter;
        self.filter.matches_all()
            || pids.contains(&pid)
            || names.contains(&process.name())
            || users.contains(&0)
            || cgroups.iter().any(|group| group == Path::new("/"))
    }

    fn nodes(&self, topology: &Topology) -> BTreeMap<NodeId, NodeSnapshot> {
        let mut nodes = BTreeMap::new();
        for (&id, node) in &topology.nodes {
            let pages = node.memory_bytes.unwrap_or(0) / PAGE_BYTES;
            let room = NodeHeadroom { free_pages: pages, inactive_file_pages: 0 };
            nodes.insert(id, lock(&self.counters).node_snapshot(id, room, pages));
        }
        for process in lock(&self.processes).values() {
            for (id, &free_pages) in &lock(process).free_pages {
                if let Some(node) = nodes.get_mut(id) {
                    node.headroom.free_pages = free_pages;
                }
            }
        }
        nodes.retain(|node, _| !lock(&self.offline).contains(node));
        nodes
    }
}

impl ProcessWatch for FakeWatch {
    fn snapshot(&mut self) -> Result<MachineSnapshot> {
        let topology = self.topology.as_ref().map_err(|_| Error::Unsupported {
            action: "a topology on paper",
            reason: "the description cannot be read".to_owned(),
        })?;
        let nodes = self.nodes(topology);
        let ids: Nodemask = nodes.keys().copied().collect();
        let (mut processes, mut denied) = (Vec::new(), Vec::new());
        for (&pid, process) in lock(&self.processes).iter() {
            let mut process = lock(process);
            if process.liveness() == Liveness::Exited || !self.matches(pid, &process) {
                continue;
            }
            process.snapshots += 1;
            match &process.denied {
                Some(need) => denied.push((pid, need.clone())),
                None => processes.push(process.snapshot(pid, &ids)),
            }
        }
        let counters = lock(&self.counters);
        Ok(MachineSnapshot {
            at_ns: *lock(&self.clock_ns),
            processes,
            denied,
            nodes,
            pressure_stall_ns: counters.pressure_stall_ns,
            migrated_pages: counters.migrated_pages,
            balancing_pages: counters.balancing_pages,
        })
    }
}

#[cfg(test)]
mod tests {
    use nodeward_model::{CpuId, Page};

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
    fn machine() -> (FakeMachine, Arc<dyn Process>) {
        let fake = FakeMachine::with_topology(true, "2n 2c 1t 4GiB");
        let (cpu, cpus) = (CpuId(0), cpus("0-3"));
        let thread = FakeThread::new(cpu, cpus, 500);
        let process = FakeProcess {
            name: "worker".into(),
            threads: [(7, thread)].into(),
            ..FakeProcess::with_pages(&[Page::on(NodeId(0)); 2])
        };
        fake.spawn(pid(7), process);
        let process = fake.open_process(pid(7)).unwrap();
        (fake, process)
    }

    fn look(fake: &FakeMachine, wanted: &ProcessFilter) -> MachineSnapshot {
        fake.watch(wanted).unwrap().snapshot().unwrap()
    }

    /// Goal: CPU time grows by the thread's share of the time, and not while it is frozen.
    #[test]
    fn time_is_told() {
        let (fake, _) = machine();
        fake.sleep_ns(1_000);
        fake.update_process(pid(7), |process| process.frozen = true);
        fake.sleep_ns(1_000);
        let snapshot = look(&fake, &ProcessFilter::default());
        let [process] = &snapshot.processes[..] else { panic!("{snapshot:?}") };
        // Of 1000 ns a half.
        assert_eq!((process.cpu_time_ns, process.non_file_bytes), (500, 2 * 4096));
        assert!(process.frozen);
        assert_eq!(snapshot.at_ns, 2_000);
        assert_eq!(snapshot.nodes.len(), 2);
    }

    /// Goal: a nudge restores the affinity, a pin does not, and a change by the program in between
    /// stays in force.
    #[test]
    fn threads_are_sent_elsewhere() {
        let (fake, process) = machine();
        let thread = || fake.process(pid(7)).unwrap().threads[&7].clone();
        assert_eq!(process.nudge(7, &cpus("2-3")).unwrap(), AffinityOutcome::Done);
        assert_eq!((thread().cpu, thread().cpus), (CpuId(2), cpus("0-3")));
        assert_eq!(process.nudge(8, &cpus("2-3")).unwrap(), AffinityOutcome::Gone);
        assert_eq!(process.nudge(7, &cpus("9")).unwrap(), AffinityOutcome::NotAllowed);
        fake.update_process(pid(7), |process| process.affinity_change = Some((3, cpus("0-1"))));
        assert_eq!(process.nudge(7, &cpus("3")).unwrap(), AffinityOutcome::Changed);
        assert_eq!(thread().cpus, cpus("0-1"));
        assert_eq!(process.pin(7, &cpus("1-3")).unwrap(), AffinityOutcome::Done);
        assert_eq!((thread().cpu, thread().cpus), (CpuId(3), cpus("1-3")));
    }

    /// Goal: the fake machine passes the bodies that read processes.
    #[test]
    fn the_fake_machine_passes() {
        use crate::conformance::watch::{ALL, WatchFixture, two_cpu_sets};
        let (fake, _) = machine();
        let sets = two_cpu_sets(&fake).unwrap();
        let name = "worker".into();
        let fixture = WatchFixture {
            machine: &fake,
            pid: pid(7),
            name,
            busy_tid: 7,
            cpu_sets: sets,
            non_file_bytes_min: 8192,
        };
        for (name, body) in ALL {
            println!("{name}");
            body(&fixture);
        }
    }

    /// Goal: processes that were not selected are left out, denied ones are listed apart, and
    /// offline nodes are left out.
    #[test]
    fn snapshots_are_selective() {
        let (fake, _) = machine();
        fake.spawn(
            pid(8),
            FakeProcess { denied: Some("be root".to_owned()), ..FakeProcess::default() },
        );
        let snapshot = look(&fake, &ProcessFilter::default());
        assert_eq!(snapshot.denied, [(pid(8), "be root".to_owned())]);
        assert!(matches!(fake.open_process(pid(8)), Err(Error::Denied { .. })));
        let other = ProcessFilter { names: vec!["other".into()], ..ProcessFilter::default() };
        assert_eq!(look(&fake, &other).processes, []);
        fake.set_offline(NodeId(1), true);
        assert_eq!(look(&fake, &ProcessFilter::default()).nodes.len(), 1);
        assert_eq!(fake.usable_cpus().unwrap(), cpus("0-1"));
        fake.kill(pid(7));
        assert_eq!(look(&fake, &ProcessFilter::default()).processes, []);
    }
}
