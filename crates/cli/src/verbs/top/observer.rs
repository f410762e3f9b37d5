//! Reads what is shown: nodes, processes, and what is decided about them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use nodeward_linux::process_lookup;
use nodeward_linux::procfs::page_lists;
use nodeward_linux::sysfs::{self, NodeAllocations};
use nodeward_machine::{Machine, ProcessWatch};
use nodeward_model::{
    MachineSnapshot, Name, NodeId, NodeSnapshot, Pid, ProcessFilter, ProcessSnapshot, Topology,
};

use super::decisions::{Decided, DecisionSource, ProcessDecision};
use super::details;
use super::sampler::MemorySampler;
use crate::results::top::{NodeFigures, PageLists, ProcessDetail, ProcessFigures, TopSample};

/// What changes slowly, and what costs more on machines with many CPUs, is read once in so many
/// refreshes: the lengths of page lists, and the names of processes of others.
const SELDOM: u64 = 5;

/// What somebody looks at now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interest {
    /// The processes on the screen.
    pub seen: Vec<Pid>,
    /// The one that is looked at closely.
    pub detail: Option<Pid>,
}

/// Reads a machine again and again.
pub struct MachineObserver {
    machine: Arc<dyn Machine>,
    /// Whether the machine is this kernel, whose further files can be read.
    is_local: bool,
    topology: Topology,
    watch: Box<dyn ProcessWatch>,
    sampler: MemorySampler,
    decisions: DecisionSource,
    refreshes: u64,
    before: Option<RefreshCounters>,
    page_lists: BTreeMap<NodeId, PageLists>,
    names: BTreeMap<Pid, Name>,
}

/// Counts at one refresh, of which the next takes differences.
struct RefreshCounters {
    at_ns: u64,
    own_cpu_ns: u64,
    cpu_ns: BTreeMap<(Pid, u64), u64>,
    migrated_pages: Option<u64>,
    traffic_bytes: BTreeMap<NodeId, Option<u64>>,
    allocations: BTreeMap<NodeId, NodeAllocations>,
}

impl MachineObserver {
    /// Begins to watch all processes.
    ///
    /// # Errors
    /// If the machine cannot be read.
    pub fn new(
        machine: Arc<dyn Machine>,
        is_local: bool,
        decisions: DecisionSource,
    ) -> Result<Self> {
        Ok(Self {
            topology: machine.topology()?,
            watch: machine.watch(&ProcessFilter::default())?,
            machine,
            is_local,
            sampler: MemorySampler::default(),
            decisions,
            refreshes: 0,
            before: None,
            page_lists: BTreeMap::new(),
            names: BTreeMap::new(),
        })
    }

    /// Returns whether the machine is this kernel.
    pub fn is_local(&self) -> bool {
        self.is_local
    }

    /// Lets the time of a simulated machine pass; that of this one passes by itself.
    pub fn pass(&self, ns: u64) {
        if !self.is_local {
            self.machine.sleep_ns(ns);
        }
    }

    /// Reads everything that is shown.
    ///
    /// # Errors
    /// If the machine as a whole cannot be read.
    pub fn refresh(&mut self, seen: &[Pid]) -> Result<TopSample> {
        let snapshot = self.watch.snapshot()?;
        if snapshot.nodes.keys().ne(self.topology.nodes.keys()) {
            self.topology = self.machine.topology()?;
        }
        self.sampler.refresh(&*self.machine, &snapshot, seen);
        let decided = self.decisions.refresh()?;
        self.read_seldom(&snapshot);
        let now = self.counters(&snapshot);
        let sample = self.sample(&snapshot, decided, &now);
        self.before = Some(now);
        self.refreshes += 1;
        Ok(sample)
    }

    /// Looks closely at one process.
    pub fn detail(&mut self, pid: Pid) -> ProcessDetail {
        let explanation = self.decisions.explain(pid);
        let parts = match self.decisions.residency(pid) {
            Some(by_agent) => by_agent.map(|residency| details::kinds(&residency)),
            None => details::mappings(&*self.machine, pid).map_err(Into::into),
        };
        let at_ns = self.machine.now_ns();
        match parts {
            Ok((parts, parts_left)) => {
                ProcessDetail { pid, at_ns, parts, parts_left, explanation, error: None }
            }
            Err(error) => {
                let error = Some(format!("{error:#}"));
                ProcessDetail { pid, at_ns, parts: Vec::new(), parts_left: 0, explanation, error }
            }
        }
    }

    fn read_seldom(&mut self, snapshot: &MachineSnapshot) {
        if !self.is_local {
            return;
        }
        let is_due = self.refreshes.is_multiple_of(SELDOM);
        if is_due {
            // Kernels without the file show no page lists.
            let zones = page_lists::zones(Path::new("/")).unwrap_or_default();
            self.page_lists = PageLists::by_node(&zones);
        }
        let mut known = std::mem::take(&mut self.names);
        for (pid, _) in &snapshot.denied {
            let known = known.remove(pid).filter(|_| !is_due);
            let name = known.or_else(|| process_lookup::name_of(Path::new("/"), *pid));
            self.names.extend(name.map(|name| (*pid, name)));
        }
    }

    fn counters(&self, snapshot: &MachineSnapshot) -> RefreshCounters {
        let cpu = |process: &ProcessSnapshot| (key(process), process.cpu_time_ns);
        let allocations =
            |node: &NodeId| Some((*node, sysfs::node_allocations(Path::new("/"), *node).ok()?));
        let nodes = snapshot.nodes.keys().filter(|_| self.is_local);
        RefreshCounters {
            at_ns: snapshot.at_ns,
            own_cpu_ns: self.machine.own_cpu_time_ns(),
            cpu_ns: snapshot.processes.iter().map(cpu).collect(),
            migrated_pages: snapshot.migrated_pages,
            traffic_bytes: snapshot
                .nodes
                .iter()
                .map(|(&id, node)| (id, node.traffic_bytes))
                .collect(),
            allocations: nodes.filter_map(allocations).collect(),
        }
    }

    fn sample(
        &self,
        snapshot: &MachineSnapshot,
        decided: Decided,
        now: &RefreshCounters,
    ) -> TopSample {
        let Decided { by, processes: mut decisions, groups, notices } = decided;
        let change = self.before.as_ref().map(|before| Change { before, now });
        let page_bytes = self.machine.page_bytes();
        let node = |(&id, node): (&NodeId, &NodeSnapshot)| self.node(id, node, change.as_ref());
        let mut processes: Vec<_> = snapshot
            .processes
            .iter()
            .map(|seen| self.process(seen, decisions.remove(&seen.pid), change.as_ref()))
            .collect();
        processes.extend(snapshot.denied.iter().map(|(pid, need)| {
            let name = self.names.get(pid).cloned().unwrap_or_default();
            denied(*pid, name, need, decisions.remove(pid))
        }));
        processes.sort_by_key(|process| process.pid);
        TopSample {
            at_ns: snapshot.at_ns,
            nodes: snapshot.nodes.iter().map(node).collect(),
            processes,
            groups,
            migrated_bytes_per_s: change
                .as_ref()
                .and_then(Change::migrated_pages_per_s)
                .map(|it| it * page_bytes),
            page_bytes,
            decided_by: by,
            notices,
            own_cpu_ppm: change.as_ref().map(Change::own_cpu_ppm),
        }
    }

    fn node(&self, id: NodeId, node: &NodeSnapshot, change: Option<&Change<'_>>) -> NodeFigures {
        let page_bytes = self.machine.page_bytes();
        let cpus = self.topology.nodes.get(&id).map_or(0, |node| node.cpus.len());
        NodeFigures {
            node: id,
            cpus: cpus as u64,
            total_bytes: node.pages * page_bytes,
            free_bytes: node.headroom.free_pages * page_bytes,
            local_ppm: change.and_then(|change| change.local_ppm(id)),
            traffic_bytes_per_s: change.and_then(|change| change.traffic_bytes_per_s(id)),
            page_lists: self.page_lists.get(&id).copied(),
        }
    }

    fn process(
        &self,
        seen: &ProcessSnapshot,
        decision: Option<ProcessDecision>,
        change: Option<&Change<'_>>,
    ) -> ProcessFigures {
        let mut threads = BTreeMap::new();
        for node in seen.threads.iter().filter_map(|it| self.topology.node_of_cpu(it.cpu)) {
            *threads.entry(node).or_default() += 1;
        }
        ProcessFigures {
            pid: seen.pid,
            started_ticks: seen.started_ticks,
            name: seen.name.clone(),
            cpu_ppm: change.and_then(|change| change.cpu_ppm(seen)),
            memory_bytes: Some(seen.non_file_bytes),
            threads,
            residency: self.sampler.residency(seen),
            decision: decision.map(|decision| decision.figures),
            denied: None,
        }
    }
}

/// A process that this program may not look at; an agent may know more.
fn denied(pid: Pid, name: Name, need: &str, decision: Option<ProcessDecision>) -> ProcessFigures {
    let (figures, threads, residency) = match decision {
        Some(ProcessDecision { figures, threads, residency }) => {
            (Some(figures), threads, Some(residency))
        }
        None => (None, BTreeMap::new(), None),
    };
    ProcessFigures {
        pid,
        started_ticks: 0,
        name,
        cpu_ppm: None,
        memory_bytes: None,
        threads,
        residency,
        decision: figures,
        denied: Some(need.to_owned()),
    }
}

/// Two refreshes, one after the other.
struct Change<'a> {
    before: &'a RefreshCounters,
    now: &'a RefreshCounters,
}

impl Change<'_> {
    /// Returns a difference of counts as a rate for each second; none if a count went backwards.
    fn per_s(&self, before: u64, now: u64) -> Option<u64> {
        let ns = u128::from(self.now.at_ns.checked_sub(self.before.at_ns)?.max(1));
        let by = u128::from(now.checked_sub(before)?);
        u64::try_from(by * 1_000_000_000 / ns).ok()
    }

    /// Returns CPU time as millionths of a CPU: nanoseconds in each second are thousandths of them.
    fn cpu_ppm(&self, seen: &ProcessSnapshot) -> Option<u64> {
        let before = *self.before.cpu_ns.get(&key(seen))?;
        Some(self.per_s(before, seen.cpu_time_ns)? / 1_000)
    }

    fn own_cpu_ppm(&self) -> u64 {
        self.per_s(self.before.own_cpu_ns, self.now.own_cpu_ns).unwrap_or(0) / 1_000
    }

    fn migrated_pages_per_s(&self) -> Option<u64> {
        self.per_s(self.before.migrated_pages?, self.now.migrated_pages?)
    }

    fn traffic_bytes_per_s(&self, node: NodeId) -> Option<u64> {
        let bytes =
            |counters: &RefreshCounters| counters.traffic_bytes.get(&node).copied().flatten();
        self.per_s(bytes(self.before)?, bytes(self.now)?)
    }

    fn local_ppm(&self, node: NodeId) -> Option<u64> {
        let (before, now) = (self.before.allocations.get(&node)?, self.now.allocations.get(&node)?);
        let local = now.local_pages.checked_sub(before.local_pages)?;
        let other = now.other_pages.checked_sub(before.other_pages)?;
        let all = u128::from(local) + u128::from(other);
        (all > 0).then(|| u64::try_from(u128::from(local) * 1_000_000 / all).unwrap_or(0))
    }
}

fn key(process: &ProcessSnapshot) -> (Pid, u64) {
    (process.pid, process.started_ticks)
}
