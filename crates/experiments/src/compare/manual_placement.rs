//! Placement by hand, as a person who knows the load does it: once, at its beginning.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Result;
use nodeward_machine::{Machine, Process};
use nodeward_model::{NodeId, NodePairs, Nodemask, PageSet};
use nodeward_mover::{Jobs, MoveControl, MoveOrder, MoveRequest, Selection, migrate};
use nodeward_policy::workers;
use nodeward_scenario::{Scenario, Workload, WorkloadKind};
use nodeward_sim::{ProcessView, SimMachine};

/// Binds threads and moves memory to them. Where processes share all of their memory, the pools of
/// their threads go to the nodes in turn, each with its part of that memory. Any other process that
/// fits on a node goes to one, that of most of its memory if there are slots. Threads of other
/// processes stay where they are, and their pages move to the node of the next access, or to the
/// thread whose part they are of if the program has bound its threads itself.
pub fn place_manually(machine: &SimMachine, scenario: &Scenario) -> Result<()> {
    let mut capacity = ThreadCapacity::new(scenario);
    let cpus_max = scenario.machine.nodes.iter().map(|node| node.cpus.len()).max().unwrap_or(0);
    let mut moves = Vec::new();
    for process in machine.processes() {
        let load = scenario.workloads.iter().find(|load| load.name == process.name);
        let Some(load) = load.filter(|load| is_long_lived(load)) else { continue };
        if load.one_segment {
            let is_known =
                moves.iter().any(|(other, _): &(ProcessView, _)| other.name == load.name);
            let orders = place_pools(machine, scenario, (&process, load));
            moves.push((process, if is_known { Vec::new() } else { orders }));
        } else if load.bound {
            let orders = orders_by_part(machine, &process);
            moves.push((process, orders));
        } else if load.threads as usize > cpus_max {
            machine.with_world(|world| {
                world.bind_threads(process.pid) && world.migrate_on_fault(process.pid)
            });
        } else if let Some(node) = capacity.assign(&process, load) {
            machine.with_world(|world| {
                world.bind_to_nodes(process.pid, &[node].into_iter().collect())
            });
            let order = order_beside_segment(machine, &process, (load, node))
                .unwrap_or_else(|| order_to(&process, node, None));
            moves.push((process, vec![order]));
        }
    }
    move_memory(machine, moves)
}

/// Free thread slots of nodes: each node gets a part of all threads by its CPUs.
struct ThreadCapacity(BTreeMap<NodeId, u64>);

impl ThreadCapacity {
    fn new(scenario: &Scenario) -> Self {
        let nodes = scenario.machine.nodes.iter();
        let cpus: BTreeMap<_, _> = nodes.map(|node| (node.id, node.cpus.len() as u64)).collect();
        let all = cpus.values().sum::<u64>().max(1);
        let threads =
            scenario.workloads.iter().filter(|load| is_long_lived(load)).map(Workload::tasks);
        let threads: u64 = threads.sum();
        Self(cpus.into_iter().map(|(id, cpus)| (id, (threads * cpus).div_ceil(all))).collect())
    }

    /// Chooses the node of a process: that of most of its memory if there are slots, else that with
    /// most slots.
    fn assign(&mut self, process: &ProcessView, load: &Workload) -> Option<NodeId> {
        let threads = u64::from(load.threads);
        let may = |id: &NodeId| load.nodes.as_ref().is_none_or(|nodes| nodes.contains(*id));
        let pages = |id: &NodeId| process.pages.get(id).copied().unwrap_or(0);
        let open = self.0.iter().filter(|(id, _)| may(id));
        let best = open.max_by_key(|&(id, &free)| (free >= threads, pages(id), free))?;
        let node = *best.0;
        self.0.entry(node).and_modify(|free| *free = free.saturating_sub(threads));
        Some(node)
    }
}

/// Returns whether a load is worth placing; short-lived processes are not.
fn is_long_lived(load: &Workload) -> bool {
    !matches!(load.kind, WorkloadKind::Compile { .. })
}

/// Returns the order that brings pages of a process to a node, all of them if none are named.
fn order_to(process: &ProcessView, node: NodeId, pages: Option<PageSet>) -> MoveOrder {
    let from: Nodemask = process.pages.keys().copied().filter(|id| *id != node).collect();
    MoveOrder { pairs: NodePairs::all_to(&from, node), pages }
}

/// Returns the order for a process that maps a segment which others map, too: of the segment, only
/// its part goes to its node, if it works mostly there. `None` if it maps no segment.
fn order_beside_segment(
    machine: &SimMachine,
    process: &ProcessView,
    (load, node): (&Workload, NodeId),
) -> Option<MoveOrder> {
    let WorkloadKind::Database { own_part_milli, .. } = load.kind else { return None };
    let [own, part] = machine.inspect(|world| world.own_addresses(process.pid));
    let part = part.into_iter().filter(|_| own_part_milli > 500);
    let mut pages = PageSet::new(machine.page_bytes());
    own.into_iter().chain(part).for_each(|address| _ = pages.insert(address));
    let mut from = machine.topology().ok()?.nodes_with_memory();
    from.remove(node);
    Some(MoveOrder { pairs: NodePairs::all_to(&from, node), pages: Some(pages) })
}

/// Binds the threads of each pool to a node; returns the orders that bring the parts of the pools
/// there.
fn place_pools(
    machine: &SimMachine,
    scenario: &Scenario,
    (process, load): (&ProcessView, &Workload),
) -> Vec<MoveOrder> {
    let nodes = scenario.machine.nodes.iter().filter(|node| !node.cpus.is_empty());
    let homes: Vec<NodeId> = nodes.map(|node| node.id).cycle().take(load.pools as usize).collect();
    machine.with_world(|world| world.bind_pools(process.pid, &homes));
    let parts = machine.inspect(|world| world.parts_of_segment(process.pid, load.pools));
    let with_memory = scenario.machine.nodes.iter().filter(|node| node.memory_bytes > 0);
    let from: Nodemask = with_memory.map(|node| node.id).collect();
    let order = |(node, addresses): (NodeId, Vec<u64>)| {
        let mut pages = PageSet::new(machine.page_bytes());
        addresses.into_iter().for_each(|address| _ = pages.insert(address));
        let mut from = from.clone();
        from.remove(node);
        MoveOrder { pairs: NodePairs::all_to(&from, node), pages: Some(pages) }
    };
    homes.into_iter().zip(parts).map(order).collect()
}

/// Returns the orders that bring the part of each thread to the node where the thread is.
fn orders_by_part(machine: &SimMachine, process: &ProcessView) -> Vec<MoveOrder> {
    let mut parts: BTreeMap<NodeId, PageSet> = BTreeMap::new();
    for (node, addresses) in machine.inspect(|world| world.parts_of_threads(process.pid)) {
        let part = parts.entry(node).or_insert_with(|| PageSet::new(machine.page_bytes()));
        addresses.into_iter().for_each(|address| _ = part.insert(address));
    }
    parts.into_iter().map(|(node, pages)| order_to(process, node, Some(pages))).collect()
}

/// Carries out the orders for each process.
fn move_memory(machine: &SimMachine, mut moves: Vec<(ProcessView, Vec<MoveOrder>)>) -> Result<()> {
    moves.iter_mut().for_each(|(_, orders)| orders.retain(|order| !order.pairs.is_empty()));
    moves.retain(|(_, orders)| !orders.is_empty());
    let held = moves.iter().map(|(process, _)| machine.open_process(process.pid));
    let held: Vec<Arc<dyn Process>> = held.collect::<Result<_, _>>()?;
    let orders = || moves.iter().flat_map(|(_, orders)| orders);
    let to: Nodemask = orders().flat_map(|order| order.pairs.iter()).map(|(_, to)| to).collect();
    let request = MoveRequest {
        orders: moves.iter().map(|(_, orders)| orders.as_slice().into()).collect(),
        selection: Selection::default(),
        jobs: Jobs::Auto,
        cpus: workers::worker_cpus(&machine.topology()?, &to, &machine.usable_cpus()?),
        rate_bytes_per_s: None,
        stall_ns: None,
        split_huge: false,
    };
    if !held.is_empty() {
        migrate(machine, &held, &request, &MoveControl::default(), None)?;
    }
    Ok(())
}
