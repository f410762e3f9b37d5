//! A program whose pages move by hardware access counters: the machine of 2004 with the patch, and
//! with nodeward's method instead.

use std::collections::BTreeMap;
use std::thread;

use anyhow::{Context as _, Result};
use nodeward_machine::{Machine as _, MovePagesCall, Process, WorkerRegistry as _};
use nodeward_model::{CpuId, NodeId, Nodemask, PageLocation, Pid};
use nodeward_policy::hot::{
    FolioLocation, HotPageRules, MissCosts, PageAccessCounts, PageRoom, plan_moves,
};
use nodeward_scenario::Scenario;
use nodeward_sim::{CpuTimeKind, PageAccesses, SimMachine, World};

use crate::reproduce::page_search::{self, LIST_MAX, LoopOrder};
use crate::reproduce::run_outcome::RunOutcome;
use crate::reproduce::scenario_runs::SEED;

/// Time between the last change and the measurement of speed: some phases of a third of a second.
const WARM_UP_NS: u64 = 1_000_000_000;
/// Length of that measurement; the speed does not change afterwards.
const MEASURED_NS: u64 = 8_000_000_000;
/// Total lines of the program: 16 CPUs, each with the fitted number.
pub const LINES: u64 = 16 * 195_900_000;
/// A round with fewer moves is the last one.
const MOVES_MIN: usize = 64;
/// Rounds over which a total time given by the seed is spread; the rest is added to the last.
const OVERHEAD_ROUNDS: u64 = 16;

/// The rule that decides which pages move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageSelector {
    /// A page moves to the node that used it most, if that was more often than once for each of its
    /// lines.
    MostUsed,
    /// `policy::hot`, with this horizon in nanoseconds.
    HotPages(u64),
}

/// The method by which a call finds the pages to move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageSearch {
    /// It compares entries with physical addresses.
    List(LoopOrder),
    /// It looks up the frames of entries in a set.
    Set,
    /// None: it gets virtual addresses.
    VirtualAddresses,
}

/// A method to move pages to the nodes that use them.
#[derive(Clone, Copy, Debug)]
pub struct CounterStrategy {
    /// Interval between readings of the counters, in nanoseconds.
    pub period_ns: u64,
    /// The decision rule.
    pub selector: PageSelector,
    /// The lookup of pages.
    pub search: PageSearch,
    /// Total time to read counters and decide, in nanoseconds, as the seed gives it.
    pub reported_overhead_ns: u64,
    /// Threads that move pages, each on a node of its own.
    pub workers: u32,
}

/// A run in progress.
struct CounterRun<'a> {
    machine: &'a SimMachine,
    pid: Pid,
    strategy: CounterStrategy,
    page_bytes: u64,
    /// Picoseconds per address of a call.
    address_ps: u64,
    overhead_left_ns: u64,
    moving_ns: u64,
    moved: u64,
    rounds: u64,
}

/// Runs the program to its end, without moves.
pub fn run_unmoved(scenario: &Scenario) -> Result<RunOutcome> {
    let machine = SimMachine::new(scenario, SEED);
    bind_program(&machine)?;
    Ok(measure(&machine))
}

/// Runs it to its end; its pages move once, to the node of the next access.
pub fn run_next_touch(scenario: &Scenario) -> Result<RunOutcome> {
    let machine = SimMachine::new(scenario, SEED);
    let pid = bind_program(&machine)?;
    machine.run_until_populated(1_000_000_000);
    machine.with_world(|world| world.migrate_on_fault(pid));
    Ok(measure(&machine))
}

/// Runs it to its end; pages move by access counters, until nearly none does.
pub fn run_counter_driven(scenario: &Scenario, way: CounterStrategy) -> Result<RunOutcome> {
    let machine = SimMachine::new(scenario, SEED);
    let pid = bind_program(&machine)?;
    let page_bytes = scenario.machine.params.page_bytes;
    let entries = scenario.workloads[0].memory_bytes.div_ceil(page_bytes);
    let address_ps = match way.search {
        PageSearch::List(order) => page_search::list_search_ps(order, entries),
        PageSearch::Set => page_search::set_search_ps(entries),
        PageSearch::VirtualAddresses => 0,
    };
    let mut drive = CounterRun {
        machine: &machine,
        pid,
        strategy: way,
        page_bytes,
        address_ps,
        overhead_left_ns: way.reported_overhead_ns,
        moving_ns: 0,
        moved: 0,
        rounds: 0,
    };
    drive.rounds()?;
    let numbers = [
        ("moving-s", drive.moving_ns as f64 / 1e9),
        ("moved", drive.moved as f64),
        ("rounds", drive.rounds as f64),
        ("ns-an-address", address_ps as f64 / 1e3),
    ];
    let outcome = measure(&machine);
    Ok(numbers.into_iter().fold(outcome, |outcome, (name, number)| outcome.with(name, number)))
}

/// Binds the threads, as such programs do themselves.
fn bind_program(machine: &SimMachine) -> Result<Pid> {
    let process = machine.processes().into_iter().next().context("a program")?;
    machine.with_world(|world| world.bind_threads(process.pid));
    Ok(process.pid)
}

fn completed_lines(world: &World) -> u64 {
    world.counters.work_done.values().sum()
}

/// Returns the time of the whole program. Once its speed is constant, the end is extrapolated
/// instead of simulated.
fn measure(machine: &SimMachine) -> RunOutcome {
    let count = || {
        machine.with_world(|world| {
            [completed_lines(world), world.counters.local_lines, world.counters.remote_lines]
        })
    };
    machine.run_until(machine.now_ns() + WARM_UP_NS);
    let (began_ns, before) = (machine.now_ns(), count());
    machine.run_until(began_ns + MEASURED_NS);
    let after = count();
    let [done, local, remote] = [0, 1, 2].map(|index| (after[index] - before[index]) as f64);
    let left = LINES as f64 - before[0] as f64;
    let seconds = began_ns as f64 / 1e9 + left / done * MEASURED_NS as f64 / 1e9;
    let report = machine.with_world(|world| world.report());
    RunOutcome::of(report).with("seconds", seconds).with("local", 100.0 * local / (local + remote))
}

impl CounterRun<'_> {
    fn rounds(&mut self) -> Result<()> {
        while self.machine.with_world(|world| completed_lines(world)) < LINES {
            self.machine.sleep_ns(self.strategy.period_ns);
            let share =
                (self.strategy.reported_overhead_ns / OVERHEAD_ROUNDS).min(self.overhead_left_ns);
            self.overhead_left_ns -= share;
            self.spend_cpu_time(CpuTimeKind::User, share);
            let lists = self.select_pages()?;
            self.rounds += 1;
            self.migrate(&lists)?;
            if lists.values().map(Vec::len).sum::<usize>() < MOVES_MIN {
                break;
            }
        }
        self.spend_cpu_time(CpuTimeKind::User, self.overhead_left_ns);
        Ok(())
    }

    fn spend_cpu_time(&self, spent: CpuTimeKind, ns: u64) {
        if ns > 0 {
            self.machine.spend_cpu_time(spent, ns);
        }
    }

    /// Returns the CPU time in the kernel so far, without faults. On this kernel a call that holds
    /// a spinlock keeps its CPU, so this is the duration of calls.
    fn call_time_ns(&self) -> u64 {
        let kernel = CpuTimeKind::ALL
            .into_iter()
            .filter(|spent| !matches!(spent, CpuTimeKind::User | CpuTimeKind::Fault));
        self.machine
            .with_world(|world| kernel.map(|spent| world.counters.spent_ns[spent as usize]).sum())
    }

    /// Reads the counters. Returns the addresses of pages to move, by destination.
    fn select_pages(&self) -> Result<BTreeMap<NodeId, Vec<u64>>> {
        let mut counts = PageAccessCounts::new(self.page_bytes);
        let mut places = BTreeMap::new();
        let nodes: Nodemask = self.machine.with_world(|world| {
            let ids: Vec<_> = world.machine.nodes.iter().map(|node| node.id).collect();
            for (index, &id) in ids.iter().enumerate() {
                for seen in world.take_accesses(index) {
                    counts.add(seen.address, seen.from, seen.lines);
                    let most = places.entry(seen.address).or_insert((id, seen));
                    if seen.lines > most.1.lines {
                        *most = (id, seen);
                    }
                }
            }
            ids.into_iter().collect()
        });
        let mut lists: BTreeMap<NodeId, Vec<u64>> = BTreeMap::new();
        match self.strategy.selector {
            PageSelector::MostUsed => {
                let line = self.machine.with_world(|world| world.machine.params.line_bytes);
                let worth = |(_, (node, seen)): &(&u64, &(NodeId, PageAccesses))| {
                    seen.from != *node && seen.lines > self.page_bytes / line
                };
                for (&address, (_, seen)) in places.iter().filter(worth) {
                    lists.entry(seen.from).or_default().push(address);
                }
            }
            PageSelector::HotPages(ahead_ns) => {
                let rules = self.hot_page_rules(nodes, ahead_ns);
                let addresses: Vec<u64> = counts.pages().collect();
                let now = self.machine.open_process(self.pid)?.locate(&addresses)?;
                let now: BTreeMap<_, _> = addresses.into_iter().zip(now).collect();
                let place = |address: u64| match now.get(&address) {
                    Some(&PageLocation::On(node)) => {
                        Some(FolioLocation { address, pages: 1, node })
                    }
                    _ => None,
                };
                for each in plan_moves(&counts, place, &rules).moves {
                    lists.entry(each.to).or_default().push(each.address);
                }
            }
        }
        Ok(lists)
    }

    fn hot_page_rules(&self, destinations: Nodemask, ahead_ns: u64) -> HotPageRules {
        let distances = self.machine.topology().ok().and_then(|topology| topology.distances);
        let (local_ns, line_bytes) = self
            .machine
            .with_world(|world| (world.machine.params.latency_ns, world.machine.params.line_bytes));
        let local_ns = u32::try_from(local_ns).unwrap_or(u32::MAX);
        let costs = MissCosts { local_ns, distances, admin_ns: 2_000, line_bytes };
        let misses_per_count = (ahead_ns / self.strategy.period_ns.max(1)).max(1);
        let room = PageRoom::of_all(u64::MAX);
        HotPageRules { costs, destinations, misses_per_count, room }
    }

    /// Moves pages in calls of one list each.
    fn migrate(&mut self, lists: &BTreeMap<NodeId, Vec<u64>>) -> Result<()> {
        let before = self.call_time_ns();
        let call = |(&to, list): (&NodeId, &[u64])| {
            let mut batch = MovePagesCall::new(false);
            list.iter().for_each(|&address| batch.push(address, to));
            batch
        };
        let chunks = |(to, list): (&'_ NodeId, &'_ Vec<u64>)| {
            list.chunks(LIST_MAX as usize).map(|list| call((to, list))).collect::<Vec<_>>()
        };
        let calls: Vec<_> = lists.iter().flat_map(chunks).collect();
        let process = self.machine.open_process(self.pid)?;
        match self.strategy.workers {
            0 | 1 => calls.iter().try_for_each(|batch| self.call_move_pages(&*process, batch))?,
            lanes => self.call_in_workers(lanes, &*process, &calls)?,
        }
        self.moving_ns += self.call_time_ns() - before;
        self.moved += calls.iter().map(|batch| batch.len() as u64).sum::<u64>();
        Ok(())
    }

    fn call_move_pages(&self, process: &dyn Process, batch: &MovePagesCall) -> Result<()> {
        self.spend_cpu_time(CpuTimeKind::Kernel, self.address_ps * batch.len() as u64 / 1000);
        process.move_pages(batch)?;
        Ok(())
    }

    /// Runs the calls on lanes: each lane is on the first CPU of a node, and takes every `lanes`-th
    /// call.
    fn call_in_workers(
        &self,
        lanes: u32,
        process: &dyn Process,
        calls: &[MovePagesCall],
    ) -> Result<()> {
        let firsts: Vec<CpuId> = self.machine.with_world(|world| {
            let first = |node: &nodeward_scenario::NodeSpec| node.cpus.iter().next();
            world.machine.nodes.iter().filter_map(first).collect()
        });
        let lane = |number: u32| -> Result<()> {
            self.machine.register_worker(number, lanes);
            self.machine.pin_current_thread(firsts[number as usize % firsts.len()]);
            let ours = calls.iter().skip(number as usize).step_by(lanes as usize);
            let done = ours.into_iter().try_for_each(|batch| self.call_move_pages(process, batch));
            self.machine.unregister_worker();
            done
        };
        thread::scope(|scope| {
            let threads: Vec<_> =
                (0..lanes).map(|number| scope.spawn(move || lane(number))).collect();
            threads.into_iter().try_for_each(|thread| thread.join().expect("a lane ends"))
        })
    }
}
