//! `nodeward move PID --hot SOURCE`: moves the pages that are worth their move.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail};
use nodeward_linux::Linux;
use nodeward_machine::{Machine, Process};
use nodeward_model::{
    Access, Name, NodeId, NodePairs, Nodemask, PageSet, ProcessLoad, Range, Topology,
};
use nodeward_mover::{
    MemoryUsers, MoveControl, MoveOrder, locate_folios, plan_by_time, sample_period,
};
use nodeward_policy::hot::{
    HotPageRules, MissCosts, PageAccessCounts, PageRoom, PeriodTimes, SampleHistory, TimeRules,
    plan_moves,
};
use nodeward_policy::placement::Rules;
use nodeward_policy::rank::cpu_time;

use crate::args::MoveArgs;
use crate::machines::hot::{AccessUnit, HotSource, open_source};
use crate::output::hot::{HotChoice, HotReport};
use crate::progress::{self, ProgressMode};
use crate::verbs::move_task::MoveTask;

/// Cost of moving a folio, without the copy of its lines: a base page takes the kernel 0.7 to 2.4
/// us without the copy.
const FOLIO_OVERHEAD_NS: u64 = 2000;

/// Creates the task of moving the hot pages of one process, each to the node that uses it most, if
/// that pays. `None` if a stop ended the watch.
pub fn task(
    args: &MoveArgs,
    name: &str,
    machine: &Linux,
    topology: &Topology,
    live: &MoveControl,
) -> Result<Option<MoveTask>> {
    let [pid] = &args.operands[..] else {
        bail!("--hot takes one process and finds the nodes: nodeward move PID --hot SOURCE");
    };
    let process = machine.open_process(pid.parse()?)?;
    let source = open_source(name)?;
    say!("nodeward: {}", source.describe());
    let misses_per_count = args.hot_pages.misses_per_count.unwrap_or(source.misses_per_count());
    let Some(seen) = observe(source, machine, &*process, topology, live)? else { return Ok(None) };
    let chooser = HotChooser {
        machine,
        process: &*process,
        topology,
        misses_per_count,
        room: PageRoom::of_all(
            args.hot_pages.hot_max.map_or(u64::MAX, |bytes| bytes / machine.page_bytes()),
        ),
    };
    let hot = chooser.choose(&seen)?;
    let orders = vec![orders(&hot.choice, machine.page_bytes(), topology).into()];
    let selection = args.skip.selection();
    Ok(Some(MoveTask { hot: Some(hot), selection, ..MoveTask::new(vec![process], orders) }))
}

/// The accesses that were observed.
struct Observation {
    /// The accesses by page and node in both halves; in the first alone if they were counted.
    halves: [PageAccessCounts; 2],
    unit: AccessUnit,
    /// Length of each half, in nanoseconds.
    half_ns: u64,
}

/// Chooses the pages that are worth their move.
struct HotChooser<'a> {
    machine: &'a Linux,
    process: &'a dyn Process,
    topology: &'a Topology,
    misses_per_count: u64,
    room: PageRoom,
}

impl HotChooser<'_> {
    fn choose(&self, seen: &Observation) -> Result<HotReport> {
        let mut pages = PageSet::new(self.machine.page_bytes());
        let all = seen.halves.iter().flat_map(PageAccessCounts::pages);
        all.for_each(|address| _ = pages.insert(address));
        let number = pages.len();
        let choice = match seen.unit {
            AccessUnit::Counts => self.by_counts(&seen.halves[0], pages)?,
            AccessUnit::Ticks(tick_ns) => {
                self.by_time(&seen.halves, PeriodTimes { period_ns: seen.half_ns, tick_ns })?
            }
        };
        Ok(HotReport { pages: number, choice })
    }

    fn costs(&self) -> MissCosts {
        MissCosts::typical(self.topology.distances.clone(), FOLIO_OVERHEAD_NS)
    }

    fn by_counts(&self, counts: &PageAccessCounts, pages: PageSet) -> Result<HotChoice> {
        let rules = HotPageRules {
            costs: self.costs(),
            destinations: self.topology.nodes_with_memory(),
            misses_per_count: self.misses_per_count,
            room: self.room.clone(),
        };
        let places = locate_folios(self.machine, self.process, pages)?;
        let plan = plan_moves(counts, |address| places.folio_at(address), &rules);
        Ok(HotChoice::ByCounts { misses_per_count: self.misses_per_count, plan })
    }

    fn by_time(&self, halves: &[PageAccessCounts], times: PeriodTimes) -> Result<HotChoice> {
        let usual = Rules::default();
        let rules = TimeRules {
            costs: self.costs(),
            destinations: self.topology.nodes_with_memory(),
            memory_bound_ppm: usual.memory_bound_ppm,
            horizon_ns: usual.horizon_ns,
            room: self.room.clone(),
        };
        let mut history = SampleHistory::new(self.machine.page_bytes());
        for half in halves {
            history.push(sample_period(self.process, half, times)?);
        }
        plan_by_time(self.machine, (self.process, MemoryUsers::OneProcess), &history, &rules)
            .map(HotChoice::ByTime)
            .map_err(Into::into)
    }
}

/// Counts the source's accesses by page and node. If the source does not know the node, it is
/// assumed to be the one on which the process got most CPU time meanwhile.
fn observe(
    source: Box<dyn HotSource>,
    machine: &Linux,
    process: &dyn Process,
    topology: &Topology,
    live: &MoveControl,
) -> Result<Option<Observation>> {
    let mut halves = [(); 2].map(|()| PageAccessCounts::new(machine.page_bytes()));
    let mut unattributed: Vec<Access> = Vec::new();
    let mut unknown: BTreeMap<NodeId, u64> = BTreeMap::new();
    let (before, began_ns) = (load(process), machine.now_ns());
    let unit = progress::run_with_progress(live, ProgressMode::Never, || {
        source.observe(process, &|| live.is_stopped(), &mut |half, access| match topology
            .node_of_accessor(access.accessor)
        {
            Some(node) if !topology.nodes.contains_key(&node) => {
                *unknown.entry(node).or_default() += access.count;
            }
            Some(node) => halves[half as usize].add(access.address, node, access.count),
            None => unattributed.push(access),
        })
    })??;
    let half_ns = machine.now_ns().saturating_sub(began_ns) / 2;
    if live.is_stopped() {
        return Ok(None);
    }
    if let Some((node, count)) = unknown.first_key_value() {
        let nodes: Nodemask = topology.nodes.keys().copied().collect();
        bail!("{count} accesses are from node {node}, and there is none here; nodes are {nodes}");
    }
    let counts = &mut halves[0];
    if !unattributed.is_empty() {
        let home = busiest_node(&before, &load(process), topology)?;
        say!("nodeward: taking node {home} for the one that accesses: its threads run there");
        unattributed.iter().for_each(|access| counts.add(access.address, home, access.count));
    }
    if counts.dropped() > 0 {
        say!("nodeward: {} accesses to further pages are left out", counts.dropped());
    }
    Ok(Some(Observation { halves, unit, half_ns }))
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
fn orders(choice: &HotChoice, page_bytes: u64, topology: &Topology) -> Vec<MoveOrder> {
    let mut sets: BTreeMap<NodeId, PageSet> = BTreeMap::new();
    let mut add = |to: NodeId, range: Range| {
        sets.entry(to).or_insert_with(|| PageSet::new(page_bytes)).insert_range(range);
    };
    let folios = match choice {
        HotChoice::ByCounts { plan, .. } => &plan.moves,
        HotChoice::ByTime(plan) => {
            plan.ranges.moves.iter().for_each(|each| add(each.to, each.range));
            &plan.folios
        }
    };
    folios.iter().for_each(|folio| add(folio.to, folio.range(page_bytes)));
    let from = topology.nodes_with_memory();
    let order = |(to, set)| MoveOrder { pairs: NodePairs::all_to(&from, to), pages: Some(set) };
    sets.into_iter().map(order).collect()
}

#[cfg(test)]
mod tests {
    use nodeward_model::{CpuId, Synthetic, ThreadCpuTime};
    use nodeward_policy::hot::{HotMove, HotPlan};

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
        let choice = HotChoice::ByCounts { misses_per_count: 1, plan };
        let orders = orders(&choice, 4096, &topology());
        let sizes: Vec<_> = orders.iter().map(|o| o.pages.as_ref().map(PageSet::len)).collect();
        assert_eq!(sizes, [Some(1), Some(513)]);
        assert_eq!(orders[1].pairs.destination(NodeId(0)), Some(NodeId(1)));
    }
}
