//! `nodeward move PID --hot SOURCE`: moves the pages that are worth their move.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail};
use nodeward_linux::Linux;
use nodeward_machine::{Machine, Process};
use nodeward_model::{Access, Name, NodeId, NodePairs, PageSet, ProcessLoad, Topology};
use nodeward_mover::{MoveControl, MoveOrder, locate_folios};
use nodeward_policy::hot::{HotPageRules, HotPlan, MissCosts, PageAccessCounts, plan_moves};
use nodeward_policy::rank::cpu_time;

use crate::args::MoveArgs;
use crate::machines::hot::{HotSource, open_source};
use crate::output::hot::HotReport;
use crate::progress::{self, ProgressMode};
use crate::verbs::move_task::MoveTask;

/// Cost of moving a folio, without the copy of its lines: a base page takes the kernel 0.7 to 2.4
/// us without the copy.
const FOLIO_OVERHEAD_NS: u64 = 2000;

/// Creates the task of moving the hot pages of one process, each to the node that uses it most, if
/// that pays. `None` if Ctrl-C ended the watch.
pub fn task(
    args: &MoveArgs,
    name: &str,
    machine: &Linux,
    topology: &Topology,
) -> Result<Option<MoveTask>> {
    let [pid] = &args.operands[..] else {
        bail!("--hot takes one process and finds the nodes: nodeward move PID --hot SOURCE");
    };
    let process = machine.open_process(pid.parse()?)?;
    let source = open_source(name, machine)?;
    say!("nodeward: {}", source.describe());
    let misses_per_count = args.hot_pages.misses_per_count.unwrap_or(source.misses_per_count());
    let Some(counts) = observe(source, machine, &*process, topology)? else { return Ok(None) };
    let rules = HotPageRules {
        costs: MissCosts::typical(topology.distances.clone(), FOLIO_OVERHEAD_NS),
        destinations: topology.nodes_with_memory(),
        misses_per_count,
        pages_max: args.hot_pages.hot_max.map_or(u64::MAX, |bytes| bytes / machine.page_bytes()),
    };
    let mut counted = PageSet::new(machine.page_bytes());
    counts.pages().for_each(|address| _ = counted.insert(address));
    let pages = counted.len();
    let places = locate_folios(machine, &*process, counted)?;
    let plan = plan_moves(&counts, |address| places.get(&address).copied(), &rules);
    let orders = vec![orders(&plan, machine.page_bytes(), topology).into()];
    let hot = Some(HotReport { pages, misses_per_count, plan });
    Ok(Some(MoveTask { hot, ..MoveTask::new(vec![process], orders) }))
}

/// Counts the source's accesses by page and node. If the source does not know the node, it is
/// assumed to be the one on which the process got most CPU time meanwhile.
fn observe(
    source: Box<dyn HotSource>,
    machine: &Linux,
    process: &dyn Process,
    topology: &Topology,
) -> Result<Option<PageAccessCounts>> {
    let mut counts = PageAccessCounts::new(machine.page_bytes());
    let mut unattributed: Vec<Access> = Vec::new();
    let before = load(process);
    let live = MoveControl::default();
    progress::run_with_progress(&live, ProgressMode::Never, || {
        source.observe(process, &|| live.is_stopped(), &mut |access| match topology
            .node_of_accessor(access.accessor)
        {
            Some(node) => counts.add(access.address, node, access.count),
            None => unattributed.push(access),
        })
    })??;
    if live.is_stopped() {
        return Ok(None);
    }
    if !unattributed.is_empty() {
        let home = busiest_node(&before, &load(process), topology)?;
        say!("nodeward: taking node {home} for the one that accesses: its threads run there");
        unattributed.iter().for_each(|access| counts.add(access.address, home, access.count));
    }
    if counts.dropped() > 0 {
        say!("nodeward: {} accesses to further pages are left out", counts.dropped());
    }
    Ok(Some(counts))
}

fn load(process: &dyn Process) -> ProcessLoad {
    let pid = process.pid();
    let threads = nodeward_linux::load::threads(Path::new("/"), pid);
    ProcessLoad { pid, name: Name::default(), non_file_bytes: 0, threads }
}

/// Returns the node on which a process got most CPU time between two samples.
fn busiest_node(before: &ProcessLoad, now: &ProcessLoad, topology: &Topology) -> Result<NodeId> {
    let mut nodes: BTreeMap<NodeId, u64> = BTreeMap::new();
    for (cpu, time_ns) in cpu_time(Some(before), now).0 {
        *nodes.entry(topology.node_of_cpu(cpu).unwrap_or(NodeId(0))).or_default() += time_ns;
    }
    let most = nodes.into_iter().max_by_key(|&(node, time_ns)| (time_ns, Reverse(node)));
    most.map(|(node, _)| node).context("the process has no threads any more")
}

/// Creates one order per destination.
fn orders(plan: &HotPlan, page_bytes: u64, topology: &Topology) -> Vec<MoveOrder> {
    let mut sets: BTreeMap<NodeId, PageSet> = BTreeMap::new();
    for folio in &plan.moves {
        let set = sets.entry(folio.to).or_insert_with(|| PageSet::new(page_bytes));
        set.insert_range(folio.range(page_bytes));
    }
    let from = topology.nodes_with_memory();
    let order = |(to, set)| MoveOrder { pairs: NodePairs::all_to(&from, to), pages: Some(set) };
    sets.into_iter().map(order).collect()
}

#[cfg(test)]
mod tests {
    use nodeward_model::{CpuId, Synthetic, ThreadCpuTime};
    use nodeward_policy::hot::HotMove;

    use super::*;

    fn topology() -> Topology {
        "2n 2c 1t 1GiB".parse::<Synthetic>().unwrap().topology()
    }

    fn load(times: &[(u32, u64)]) -> ProcessLoad {
        let threads = times.iter().zip(1..).map(|(&(cpu, cpu_time_ns), tid)| ThreadCpuTime {
            tid,
            cpu: CpuId(cpu),
            cpu_time_ns,
        });
        let pid = nodeward_model::Pid::new(7).unwrap();
        ProcessLoad { pid, name: Name::default(), non_file_bytes: 0, threads: threads.collect() }
    }

    /// Goal: accesses without a node are attributed to the node of the CPU time meanwhile, not
    /// before.
    #[test]
    fn home_is_where_the_time_goes() {
        let before = load(&[(0, 900), (2, 10)]);
        let now = load(&[(0, 910), (2, 60)]);
        assert_eq!(busiest_node(&before, &now, &topology()).unwrap(), NodeId(1));
        assert!(busiest_node(&before, &load(&[]), &topology()).is_err());
    }

    /// Goal: every folio that is worth its move is in the order of its destination, whole.
    #[test]
    fn each_destination_has_its_order() {
        let folio = |address, pages, to| HotMove {
            address,
            pages,
            from: NodeId(0),
            to: NodeId(to),
            saved_ns: 2,
            cost_ns: 1,
        };
        let moves = vec![folio(0x20_0000, 512, 1), folio(0x1000, 1, 0), folio(0x3000, 1, 1)];
        let plan = HotPlan { moves, ..HotPlan::default() };
        let orders = orders(&plan, 4096, &topology());
        let sizes: Vec<_> = orders.iter().map(|o| o.pages.as_ref().map(PageSet::len)).collect();
        assert_eq!(sizes, [Some(1), Some(513)]);
        assert_eq!(orders[1].pairs.destination(NodeId(0)), Some(NodeId(1)));
    }
}
