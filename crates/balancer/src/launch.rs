//! Launch placement: chooses the home of a program that is about to start, by the balancer's rule
//! for one process more than there are.

use nodeward_machine::{Machine, Result};
use nodeward_model::{Cpumask, NodeId, Nodemask, Pid, ProcessFilter};
use nodeward_policy::placement::{
    Entity, EntityId, Homes, KernelPreference, Rules, Snapshot, Thread,
};

use super::group_table::GroupTable;
use super::nodes::Nodes;
use super::process_table::{ProcessState, ProcessTable};
use super::segment_table::SegmentTable;
use super::snapshot::{Excluded, Tables};

/// Time for which loads are measured, in nanoseconds: the program waits for it. The kernel counts a
/// running thread's time at each tick, of 4 ms on most machines, so a load is known to a fifth.
const WINDOW_NS: u64 = 20_000_000;
/// The most CPU time that a program with one thread can use, in millionths of a CPU.
const ONE_CPU_PPM: u32 = 1_000_000;

/// A program that is about to start.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    /// The pid that the program will have. The process that has it now is left out of the decision.
    pub pid: Pid,
    /// The node where the program would start otherwise.
    pub node: Option<NodeId>,
    /// The CPUs that the program may use.
    pub usable: &'a Cpumask,
    /// Nodes that are kept empty: the home is on none of them.
    pub keep_empty: &'a Nodemask,
}

/// Returns the home of a process with one busy thread; `None` if no node that is not kept empty has
/// CPUs and memory that the process may use. Takes a fiftieth of a second.
///
/// # Errors
/// If processes cannot be watched.
pub fn home_of_launch(machine: &dyn Machine, launch: &Launch<'_>) -> Result<Option<NodeId>> {
    let mut watch = machine.watch(&ProcessFilter::default())?;
    let (mut processes, mut nodes) = (ProcessTable::default(), Nodes::default());
    for pause_ns in [0, WINDOW_NS] {
        machine.sleep_ns(pause_ns);
        let machine_snapshot = watch.snapshot()?;
        nodes.see(machine, &machine_snapshot)?;
        processes.see(machine_snapshot, 0);
    }
    let is_it = |state: &ProcessState| state.seen.as_ref().is_some_and(|it| it.pid == launch.pid);
    let may_hold = processes.iter().find(|(_, state)| is_it(state));
    let may_hold = may_hold.and_then(|(_, state)| Some(state.seen.as_ref()?.memory_nodes.clone()));
    let (excluded, segments) = (&Excluded::default(), &SegmentTable::default());
    let when = (machine.now_ns(), machine.page_bytes());
    let kernel_balances = false;
    let groups = &GroupTable::default();
    let tables = Tables {
        nodes: &nodes,
        processes: &processes,
        excluded,
        segments,
        groups,
        kernel_balances,
        keep_empty: launch.keep_empty,
        groups_only: false,
    };
    let snapshot = tables.snapshot(when, &is_it);
    Ok(place(launch, may_hold, &nodes, snapshot, EntityId(processes.next())))
}

/// Decides with the program among the other processes. The others count as being at home where they
/// run, because their memory was not sampled.
fn place(
    launch: &Launch<'_>,
    may_hold: Option<Nodemask>,
    nodes: &Nodes,
    mut snapshot: Snapshot,
    id: EntityId,
) -> Option<NodeId> {
    let may_hold = may_hold.unwrap_or_else(|| snapshot.nodes.keys().copied().collect());
    let reached = nodes.affinity(launch.usable);
    let can_be_home = |node: &NodeId| {
        let state = snapshot.nodes.get(node);
        let is_open = state.is_some_and(|it| it.cpus > 0 && it.pages > 0 && !it.keep_empty);
        is_open && may_hold.contains(*node) && reached.cpus(*node) > 0
    };
    let fallback = launch.node.filter(can_be_home);
    let fallback = fallback.or_else(|| snapshot.nodes.keys().copied().find(can_be_home));
    let node = launch.node.or(fallback)?;
    let (tid, affinity) = (launch.pid.number(), snapshot.affinities.len());
    let (near, load_ppm, wait_ppm) = (None, ONE_CPU_PPM, 0);
    let thread = Thread {
        tid,
        node,
        near,
        kernel_prefers: KernelPreference::Anywhere,
        load_ppm,
        wait_ppm,
        affinity,
    };
    snapshot.affinities.push(reached);
    let rules = Rules::default();
    let (run_ns, threads) = (rules.run_ns_min, vec![thread]);
    snapshot.entities.push(Entity { id, run_ns, threads, may_hold, ..Entity::default() });
    let plan = Homes::default().decide(&snapshot, &rules);
    let home = plan.homes.get(&id).and_then(|home| home.thread_nodes().first());
    // A machine with one node leaves no choice.
    home.or(fallback)
}
