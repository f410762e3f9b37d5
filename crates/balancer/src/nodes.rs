//! The machine's nodes as the balancer knows them, updated by each snapshot.

use std::collections::BTreeMap;

use nodeward_machine::{Machine, Result};
use nodeward_model::topology::Distances;
use nodeward_model::{CpuId, Cpumask, MachineSnapshot, NodeId, NodeSnapshot, Nodemask};
use nodeward_policy::placement::{Affinity, NodeState, Rules};

use super::report::Notice;

/// Number of CPUs for one worker, and the maximum number of workers of a machine.
const CPUS_PER_WORKER: usize = 6;
const WORKERS_MAX: u32 = 8;

/// Nodes, CPUs and distances.
#[derive(Default)]
pub struct Nodes {
    cpus: BTreeMap<NodeId, Cpumask>,
    node_of_cpu: BTreeMap<CpuId, NodeId>,
    distances: Option<Distances>,
    /// The counters of the last snapshot.
    seen: BTreeMap<NodeId, NodeSnapshot>,
    /// The states computed from these counters and the earlier ones.
    states: BTreeMap<NodeId, NodeState>,
    at_ns: Option<u64>,
    stalls: Stalls,
    migrations: Migrations,
}

/// Time in which tasks stalled for want of memory (PSI).
#[derive(Default)]
struct Stalls {
    /// The total at the last snapshot.
    last_ns: Option<u64>,
    /// The part of the time since the snapshot before.
    ppm: Option<u32>,
}

/// Pages that others migrated: the kernel, or another program. They may belong to any process; no
/// counter says to which.
#[derive(Default)]
struct Migrations {
    /// The machine's counter at the last snapshot.
    last_pages: Option<u64>,
    /// Pages that this balancer moved since.
    own_pages: u64,
    /// Pages that other programs or the kernel migrated since the first snapshot.
    others_pages: u64,
}

impl Nodes {
    /// Enters a snapshot of the nodes; returns notices about nodes that came online or went
    /// offline.
    pub fn see(
        &mut self,
        machine: &dyn Machine,
        machine_snapshot: &MachineSnapshot,
    ) -> Result<Vec<Notice>> {
        let is_known = |cpu| self.node_of_cpu.contains_key(cpu);
        let mut cpus =
            machine_snapshot.processes.iter().flat_map(|p| p.threads.iter().map(|t| &t.cpu));
        let is_first = self.seen.is_empty();
        let is_same =
            !is_first && self.seen.keys().eq(machine_snapshot.nodes.keys()) && cpus.all(is_known);
        if !is_same {
            self.read(machine)?;
        }
        let earlier = std::mem::replace(&mut self.seen, machine_snapshot.nodes.clone());
        let before_ns =
            self.at_ns.replace(machine_snapshot.at_ns).unwrap_or(machine_snapshot.at_ns);
        let elapsed_ns = machine_snapshot.at_ns.saturating_sub(before_ns);
        self.stalls.see(machine_snapshot.pressure_stall_ns, elapsed_ns);
        self.migrations.see(machine_snapshot.migrated_pages);
        let state = |(&id, now): (&NodeId, &NodeSnapshot)| {
            (id, self.state(id, now, earlier.get(&id), elapsed_ns))
        };
        self.states = self.seen.iter().map(state).collect();
        if is_first {
            return Ok(Vec::new());
        }
        let came = self.seen.keys().filter(|node| !earlier.contains_key(node));
        let left = earlier.keys().filter(|node| !self.seen.contains_key(node));
        let came = came.map(|&node| Notice::NodeCame { node });
        Ok(came.chain(left.map(|&node| Notice::NodeLeft { node })).collect())
    }

    /// Returns the nodes, none of which is marked as kept empty.
    pub fn states(&self) -> &BTreeMap<NodeId, NodeState> {
        &self.states
    }

    /// Returns the nodes as input of the decision, of which these are to be kept empty.
    pub fn states_with(&self, keep_empty: &Nodemask) -> BTreeMap<NodeId, NodeState> {
        let state = |(&id, state): (&NodeId, &NodeState)| {
            (id, NodeState { keep_empty: keep_empty.contains(id), ..*state })
        };
        self.states.iter().map(state).collect()
    }

    /// Returns the node of a CPU; `None` if either is offline.
    pub fn node_of(&self, cpu: CpuId) -> Option<NodeId> {
        self.node_of_cpu.get(&cpu).copied().filter(|node| self.seen.contains_key(node))
    }

    /// Returns the CPUs of nodes.
    pub fn cpus_of(&self, nodes: &Nodemask) -> Cpumask {
        let cpus = nodes.iter().filter_map(|node| self.cpus.get(&node));
        cpus.fold(Cpumask::new(), |all, cpus| all.or(cpus))
    }

    /// Returns how many CPUs of each node a mask has.
    pub fn affinity(&self, mask: &Cpumask) -> Affinity {
        let online = self.cpus.iter().filter(|(node, _)| self.seen.contains_key(node));
        let count = |cpus: &Cpumask| u32::try_from(cpus.and(mask).len()).unwrap_or(u32::MAX);
        Affinity(online.map(|(&n, cpus)| (n, count(cpus))).filter(|&(_, n)| n > 0).collect())
    }

    /// Returns the distances between nodes.
    pub fn distances(&self) -> Option<&Distances> {
        self.distances.as_ref()
    }

    /// Returns the number of workers that move memory of processes with this demand for CPU time,
    /// in millionths of a CPU.
    pub fn workers(&self, wanted_ppm: u64) -> u32 {
        workers(self.cpu_count(), wanted_ppm)
    }

    /// Returns the number of CPUs of all nodes.
    pub fn cpu_count(&self) -> usize {
        self.cpus.values().map(Cpumask::len).sum()
    }

    /// Returns whether a node with room for `room_pages` pages is too short of memory to get more.
    pub fn is_short(&self, node: NodeId, room_pages: u64, rules: &Rules) -> bool {
        let with_room = |state: &NodeState| NodeState { room_pages, ..*state };
        self.states.get(&node).is_none_or(|state| with_room(state).is_short(rules))
    }

    /// Returns the part of the time since the snapshot before in which some task stalled for want
    /// of memory, if the machine reports it.
    pub fn stalled_ppm(&self) -> Option<u32> {
        self.stalls.ppm
    }

    /// Adds pages that this balancer moved since the last snapshot.
    pub fn count_own_migrations(&mut self, pages: u64) {
        self.migrations.own_pages += pages;
    }

    /// Returns the number of pages that others migrated since the first snapshot.
    pub fn pages_migrated_by_others(&self) -> u64 {
        self.migrations.others_pages
    }

    fn read(&mut self, machine: &dyn Machine) -> Result<()> {
        let topology = machine.topology()?;
        self.cpus = topology.nodes.iter().map(|(&id, node)| (id, node.cpus.clone())).collect();
        let of_node = |(&node, cpus): (&NodeId, &Cpumask)| -> Vec<_> {
            cpus.iter().map(|cpu| (cpu, node)).collect()
        };
        self.node_of_cpu = self.cpus.iter().flat_map(of_node).collect();
        self.distances = topology.distances;
        Ok(())
    }

    fn state(
        &self,
        id: NodeId,
        now: &NodeSnapshot,
        earlier: Option<&NodeSnapshot>,
        elapsed_ns: u64,
    ) -> NodeState {
        let cpus = self.cpus.get(&id).map_or(0, Cpumask::len);
        // A counter that was reset counts from zero.
        let foreign_before = earlier.map_or(now.foreign_pages, |earlier| earlier.foreign_pages);
        let traffic_ppm = match elapsed_ns {
            0 => self.states.get(&id).and_then(|state| state.traffic_ppm),
            _ => earlier.and_then(|earlier| traffic_ppm(earlier, now, elapsed_ns)),
        };
        NodeState {
            cpus: u32::try_from(cpus).unwrap_or(u32::MAX),
            pages: now.pages,
            room_pages: now.headroom.free_or_cold_pages(),
            foreign_pages: now.foreign_pages.saturating_sub(foreign_before),
            traffic_ppm,
            keep_empty: false,
        }
    }
}

impl Stalls {
    /// Enters a total. If no time passed, or the clock went back, the old value stays.
    fn see(&mut self, stalled_ns: Option<u64>, elapsed_ns: u64) {
        let before = std::mem::replace(&mut self.last_ns, stalled_ns);
        let since = stalled_ns.zip(before).map(|(now, before)| now.saturating_sub(before));
        if since.is_none() || elapsed_ns > 0 {
            self.ppm = since.map(|ns| part_ppm(ns.into(), elapsed_ns.into()));
        }
    }
}

impl Migrations {
    /// Enters the machine's counter. A counter that was reset counts from zero.
    fn see(&mut self, pages: Option<u64>) {
        let before = std::mem::replace(&mut self.last_pages, pages);
        let since = pages.zip(before).map_or(0, |(now, before)| now.saturating_sub(before));
        self.others_pages += since.saturating_sub(std::mem::take(&mut self.own_pages));
    }
}

fn part_ppm(part: u128, whole: u128) -> u32 {
    u32::try_from((part * 1_000_000 / whole.max(1)).min(1_000_000)).unwrap_or(0)
}

/// Returns the bandwidth that a node's memory delivered relative to its maximum; `None` if the
/// machine does not count it or does not know the maximum.
fn traffic_ppm(earlier: &NodeSnapshot, now: &NodeSnapshot, elapsed_ns: u64) -> Option<u32> {
    let most = u128::from(now.bandwidth_bytes_per_s.filter(|&most| most > 0)?);
    let bytes = u128::from(now.traffic_bytes?.saturating_sub(earlier.traffic_bytes?));
    Some(part_ppm(bytes * 1_000_000_000 / u128::from(elapsed_ns), most))
}

/// Returns the number of workers. More workers finish sooner, and a move that pays then pays for
/// longer; but they must not get more of the CPUs than the processes whose memory they move.
fn workers(cpus: usize, wanted_ppm: u64) -> u32 {
    let own = usize::try_from((wanted_ppm + 500_000) / 1_000_000).unwrap_or(usize::MAX);
    let room = cpus / CPUS_PER_WORKER;
    u32::try_from(room.max(own)).unwrap_or(u32::MAX).clamp(1, WORKERS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: two workers move the memory of two busy threads, also where all CPUs are in use; a
    /// large machine has some more workers, and there are never many.
    #[test]
    fn as_many_workers_as_a_process_would_use_cpus() {
        let of = |cpus, threads: u64| workers(cpus, threads * 1_000_000);
        assert_eq!([of(2, 0), of(2, 1), of(2, 3), of(2, 9)], [1, 1, 3, 8]);
        assert_eq!([of(18, 1), of(18, 4), of(1024, 1), of(1024, 64)], [3, 4, 8, 8]);
        assert_eq!([workers(8, 1_400_000), workers(8, 1_600_000)], [1, 2]);
    }
}
