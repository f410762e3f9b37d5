//! The home of a program that is about to start: the balancer's rule, for one process more than
//! there are.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use nodeward_linux::{Linux, own};
use nodeward_machine::Machine;
use nodeward_model::{Cpumask, Glance, NodeId, ProcessGlance, Topology, Wanted};
use nodeward_policy::home::{Entity, EntityId, Homes, NodeState, Reach, Rules, Snapshot, Thread};

/// How long loads are watched, in nanoseconds.
const WINDOW_NS: u64 = 100_000_000;
/// All that a program can use that has one thread, in millionths of a CPU.
const ONE_CPU_PPM: u32 = 1_000_000;

/// The node where a process with one busy thread would be at home. Takes a tenth of a second.
///
/// # Errors
/// If processes cannot be watched, or no node has CPUs and memory for us.
pub fn idlest(machine: &Linux, topology: &Topology, usable: &Cpumask) -> Result<NodeId> {
    let mut watch = machine.watch(&Wanted::default())?;
    let before = watch.glance()?;
    machine.sleep_ns(WINDOW_NS);
    let now = watch.glance()?;
    let newcomer = Newcomer {
        pid: std::process::id(),
        node: topology.node_of_cpu(own::current_cpu()),
        usable,
    };
    home_of(&newcomer, topology, machine.page_bytes(), &before, &now)
        .context("no node has CPUs and memory that this process may use; name one by --home")
}

/// Who wants a home.
struct Newcomer<'a> {
    /// Our pid, which the program will have.
    pid: u32,
    /// Where we run.
    node: Option<NodeId>,
    /// Where we may run.
    usable: &'a Cpumask,
}

fn home_of(
    newcomer: &Newcomer<'_>,
    topology: &Topology,
    page_bytes: u64,
    before: &Glance,
    now: &Glance,
) -> Option<NodeId> {
    let both = topology.nodes_with_memory().and(&topology.nodes_with_cpus());
    let us = now.processes.iter().find(|process| process.pid.number() == newcomer.pid);
    let may_hold = us.map_or_else(|| both.clone(), |us| us.memory_nodes.clone());
    let mut crowd = Crowd { topology, reaches: Vec::new() };
    let others = now.processes.iter().filter(|process| process.pid.number() != newcomer.pid);
    let elapsed_ns = now.at_ns.saturating_sub(before.at_ns).max(1);
    let mut entities: Vec<Entity> = others
        .zip(0..)
        .map(|(process, id)| crowd.entity(EntityId(id), process, before, elapsed_ns))
        .collect();
    let id = EntityId(entities.len() as u64);
    let reach = crowd.reach(newcomer.usable);
    let at_home = |node: &NodeId| {
        both.contains(*node) && may_hold.contains(*node) && crowd.reaches[reach].cpus(*node) > 0
    };
    let fallback = newcomer.node.filter(at_home).or_else(|| both.iter().find(at_home));
    let node = newcomer.node.or(fallback)?;
    let thread = Thread { tid: newcomer.pid, node, load_ppm: ONE_CPU_PPM, wait_ppm: 0, reach };
    entities.push(Entity {
        id,
        run_ns: Rules::default().run_ns_min,
        threads: vec![thread],
        may_hold,
        ..Entity::default()
    });
    let snapshot = Snapshot {
        at_ns: now.at_ns,
        page_bytes,
        nodes: nodes(topology, page_bytes, now),
        distances: topology.distances.clone(),
        reaches: crowd.reaches,
        entities,
    };
    let plan = Homes::default().decide(&snapshot, &Rules::default());
    let home = plan.homes.get(&id).and_then(|home| home.thread_nodes().first());
    // A machine with one node leaves nothing to decide.
    home.or(fallback)
}

fn nodes(topology: &Topology, page_bytes: u64, now: &Glance) -> BTreeMap<NodeId, NodeState> {
    let state = |(&id, node): (&NodeId, &nodeward_model::topology::Node)| {
        let seen = now.nodes.get(&id).copied().unwrap_or_default();
        let pages = node.memory_bytes.map_or(seen.pages, |bytes| bytes / page_bytes);
        let room_pages = seen.room.free_pages.saturating_add(seen.room.cold_pages);
        let cpus = u32::try_from(node.cpus.len()).unwrap_or(u32::MAX);
        (id, NodeState { cpus, pages, room_pages, ..NodeState::default() })
    };
    topology.nodes.iter().map(state).collect()
}

/// Who is there already.
struct Crowd<'a> {
    topology: &'a Topology,
    reaches: Vec<Reach>,
}

impl Crowd<'_> {
    /// A process at home where it runs: where its memory is was not looked at.
    fn entity(
        &mut self,
        id: EntityId,
        process: &ProcessGlance,
        before: &Glance,
        elapsed_ns: u64,
    ) -> Entity {
        let same = |other: &&ProcessGlance| {
            (other.pid, other.started_ticks) == (process.pid, process.started_ticks)
        };
        let earlier: BTreeMap<u32, u64> = before
            .processes
            .iter()
            .find(same)
            .into_iter()
            .flat_map(|process| process.threads.iter().map(|t| (t.tid, t.cpu_time_ns)))
            .collect();
        let mut threads = Vec::new();
        for thread in &process.threads {
            let Some(node) = self.topology.node_of_cpu(thread.cpu) else { continue };
            let had_ns = earlier.get(&thread.tid).copied().unwrap_or(thread.cpu_time_ns);
            let ran_ns = u128::from(thread.cpu_time_ns.saturating_sub(had_ns));
            let load_ppm = ran_ns * u128::from(ONE_CPU_PPM) / u128::from(elapsed_ns);
            threads.push(Thread {
                tid: thread.tid,
                node,
                load_ppm: u32::try_from(load_ppm).unwrap_or(u32::MAX).min(ONE_CPU_PPM),
                wait_ppm: 0,
                reach: self.reach(&thread.cpus),
            });
        }
        let (run_ns, may_hold) = (process.cpu_time_ns, process.memory_nodes.clone());
        Entity { id, run_ns, threads, may_hold, ..Entity::default() }
    }

    /// The position of an affinity among those that are known.
    fn reach(&mut self, cpus: &Cpumask) -> usize {
        let mut counts = BTreeMap::new();
        for node in cpus.iter().filter_map(|cpu| self.topology.node_of_cpu(cpu)) {
            *counts.entry(node).or_default() += 1;
        }
        let reach = Reach(counts);
        self.reaches.iter().position(|known| *known == reach).unwrap_or_else(|| {
            self.reaches.push(reach);
            self.reaches.len() - 1
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use nodeward_model::{CpuId, NodeGlance, Pid, Room, Synthetic, ThreadGlance};

    use super::*;

    const PAGE_BYTES: u64 = 4096;
    const SECOND_NS: u64 = 1_000_000_000;

    /// A machine of so many nodes with 4 CPUs each, where processes with one busy thread each run
    /// on these CPUs.
    fn home(nodes: u32, busy: &[u32], usable: &str) -> Option<NodeId> {
        let line = format!("{nodes}n 4c 1t 1GiB");
        let topology = line.parse::<Synthetic>().unwrap().topology();
        let all: Arc<Cpumask> = Arc::new((0..nodes * 4).map(CpuId).collect());
        let process = |number: u32, cpu: u32, ran_ns: u64| ProcessGlance {
            pid: Pid::new(number).unwrap(),
            name: "busy".to_owned(),
            started_ticks: 1,
            cpu_time_ns: 10 * SECOND_NS + ran_ns,
            own_bytes: 1 << 20,
            memory_nodes: topology.node_ids(),
            frozen: false,
            threads: vec![ThreadGlance {
                tid: number,
                cpu: CpuId(cpu),
                cpu_time_ns: ran_ns,
                cpus: Arc::clone(&all),
            }],
        };
        let room = Room { free_pages: 200_000, cold_pages: 0 };
        let node = NodeGlance { room, pages: 262_144, ..NodeGlance::default() };
        let glance = |at_ns: u64| Glance {
            at_ns,
            processes: busy.iter().zip(10..).map(|(&cpu, pid)| process(pid, cpu, at_ns)).collect(),
            nodes: topology.node_ids().iter().map(|id| (id, node)).collect(),
            ..Glance::default()
        };
        let usable = usable.parse().unwrap();
        let us = Newcomer { pid: 7, node: Some(NodeId(0)), usable: &usable };
        home_of(&us, &topology, PAGE_BYTES, &glance(0), &glance(SECOND_NS))
    }

    /// Goal: a program starts where CPUs are idle; where that is everywhere, it stays.
    #[test]
    fn it_goes_where_there_is_time() {
        assert_eq!(home(2, &[], "0-7"), Some(NodeId(0)));
        // Five threads on the four CPUs of node 0, none on node 1.
        assert_eq!(home(2, &[0, 1, 2, 3, 0], "0-7"), Some(NodeId(1)));
        assert_eq!(home(2, &[4, 5, 6, 7, 4], "0-7"), Some(NodeId(0)));
    }

    /// Goal: an affinity is obeyed, and a machine with one node has its home there.
    #[test]
    fn it_goes_where_it_may() {
        assert_eq!(home(2, &[0, 1, 2, 3, 0], "0-3"), Some(NodeId(0)));
        assert_eq!(home(2, &[], "4-7"), Some(NodeId(1)));
        assert_eq!(home(1, &[0, 1], "0-3"), Some(NodeId(0)));
    }
}
