//! Many programs on few nodes: what part of their memory is near, under the kernel of 2012 and with
//! what nodeward does from user space. The rule of who is at home where is one of its own here:
//! `policy` has none yet.

use std::collections::BTreeMap;

use anyhow::Result;
use nodeward_machine::{Machine as _, MoveBatch};
use nodeward_model::{NodeId, Page, Pid, Place};
use nodeward_scenario::Scenario;
use nodeward_sim::{ProcessView, SimMachine};

use crate::outcome::Outcome;
use crate::runs::SEED;

/// Programs have long been running when misses are counted.
const WARM_NS: u64 = 20_000_000_000;
/// Between two looks at where processes have their memory.
const LOOK_NS: u64 = 2_000_000_000;
/// Pages of a call.
const CALL_PAGES: usize = 4096;
/// What a page takes to move, with its share of the call: 1 to 2 us for 4 KiB on such machines.
const MOVE_NS: u64 = 2_000;
/// How long a process is expected to stay as it is.
const AHEAD_NS: u64 = 10_000_000_000;

/// What nodeward does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Nudge {
    Nothing,
    /// Keeps processes where most of their memory is.
    Threads,
    /// And moves the rest of their memory there, if that pays.
    Memory,
}

/// The kernel alone.
pub fn watched(scenario: &Scenario) -> Result<Outcome> {
    run(scenario, Nudge::Nothing)
}

/// Processes get a home on a kernel that knows none.
pub fn threads_nudged(scenario: &Scenario) -> Result<Outcome> {
    run(scenario, Nudge::Threads)
}

/// And their memory follows.
pub fn memory_moved(scenario: &Scenario) -> Result<Outcome> {
    run(scenario, Nudge::Memory)
}

fn run(scenario: &Scenario, nudge: Nudge) -> Result<Outcome> {
    let machine = SimMachine::new(scenario, SEED);
    machine.run_until(WARM_NS / 2);
    let mut moved = 0;
    while machine.now_ns() < WARM_NS {
        let next_ns = machine.now_ns() + LOOK_NS;
        moved += look(&machine, nudge)?;
        machine.run_until(next_ns);
    }
    let count = |machine: &SimMachine| {
        machine.with_world(|world| {
            let counters = &world.counters;
            [counters.local_lines, counters.remote_lines, counters.task_node_moves]
        })
    };
    let before = count(&machine);
    let began_ns = machine.now_ns();
    while machine.now_ns() < scenario.time_ns {
        let next_ns = (machine.now_ns() + LOOK_NS).min(scenario.time_ns);
        moved += look(&machine, nudge)?;
        machine.run_until(next_ns);
    }
    let after = count(&machine);
    let seconds = (machine.now_ns() - began_ns) as f64 / 1e9;
    let per_s = |index: usize| (after[index] - before[index]) as f64 / seconds;
    let report = machine.with_world(|world| world.report());
    Ok(Outcome::of(report)
        .with("local", per_s(0))
        .with("remote", per_s(1))
        .with("node-moves", per_s(2))
        .with("moved", moved as f64))
}

/// Looks where processes are, and helps; returns pages that it moved.
fn look(machine: &SimMachine, nudge: Nudge) -> Result<u64> {
    if nudge == Nudge::Nothing {
        return Ok(0);
    }
    let processes = machine.processes();
    let homes = homes(machine, &processes);
    let mut moved = 0;
    for process in &processes {
        let Some(&home) = homes.get(&process.pid) else { continue };
        machine.with_world(|world| world.keep_on(process.pid, &[home].into_iter().collect()));
        if nudge == Nudge::Memory && pays(machine, process, home) {
            moved += bring(machine, process.pid, home)?;
        }
    }
    Ok(moved)
}

/// The node where most of its memory is for each process, as long as that has room for its share
/// of them; those that it would cost most to bring elsewhere come first.
fn homes(machine: &SimMachine, processes: &[ProcessView]) -> BTreeMap<Pid, NodeId> {
    let nodes: Vec<NodeId> =
        machine.with_world(|world| world.machine.nodes.iter().map(|node| node.id).collect());
    let share = processes.len().div_ceil(nodes.len().max(1));
    let on = |process: &ProcessView, node: NodeId| process.pages.get(&node).copied().unwrap_or(0);
    let lead = |process: &ProcessView| {
        let mut pages: Vec<_> = nodes.iter().map(|&node| on(process, node)).collect();
        pages.sort_unstable();
        pages.last().copied().unwrap_or(0) - pages.iter().rev().nth(1).copied().unwrap_or(0)
    };
    let mut order: Vec<_> = processes.iter().collect();
    order.sort_by_key(|process| (std::cmp::Reverse(lead(process)), process.pid));
    let mut taken: BTreeMap<NodeId, usize> = BTreeMap::new();
    let mut homes = BTreeMap::new();
    for process in order {
        let room = |node: &NodeId| taken.get(node).copied().unwrap_or(0) < share;
        let best = nodes.iter().copied().filter(room).max_by_key(|&node| on(process, node));
        if let Some(home) = best {
            *taken.entry(home).or_default() += 1;
            homes.insert(process.pid, home);
        }
    }
    homes
}

/// Whether bringing the rest of a process's memory home saves more time than it takes. A process
/// that streams comes to each line again and again; it gets its part of what memory delivers.
fn pays(machine: &SimMachine, process: &ProcessView, home: NodeId) -> bool {
    let far = |(&node, &pages): (&NodeId, &u64)| if node == home { 0 } else { pages };
    let (away, all): (u64, u64) =
        (process.pages.iter().map(far).sum(), process.pages.values().sum());
    if away == 0 {
        return false;
    }
    let lines_per_s = machine.with_world(|world| {
        let counters = &world.counters;
        let lines = counters.local_lines + counters.remote_lines;
        u128::from(lines) * 1_000_000_000 / u128::from(world.now_ns().max(1))
    });
    let processes = machine.processes().len().max(1) as u128;
    let far_lines = lines_per_s / processes * u128::from(away) / u128::from(all.max(1));
    let saved_ps = machine.with_world(|world| {
        let of = |to| world.machine.latency_ns(0, to);
        let far = (0..world.machine.nodes.len()).map(of).max().unwrap_or(0);
        // With so many misses under way, a line takes a tenth of its latency.
        u128::from(far - of(0)) * 1000 / 10
    });
    let saved_ns = far_lines * saved_ps / 1000 * u128::from(AHEAD_NS) / 1_000_000_000;
    saved_ns > u128::from(away * MOVE_NS)
}

/// Moves what a process has elsewhere to a node, in calls of [`CALL_PAGES`].
fn bring(machine: &SimMachine, pid: Pid, home: NodeId) -> Result<u64> {
    let process = machine.hold(pid)?;
    let page_bytes = machine.page_bytes();
    let mut moved = 0;
    for mapping in process.mappings()? {
        let mut pages = Vec::new();
        process.pages(&mapping, mapping.range, &mut pages)?;
        let is_away = |page: &Page| matches!(page.place, Place::On(node) if node != home);
        let away: Vec<u64> = (0..)
            .map(|index| mapping.range.start + index * page_bytes)
            .zip(&pages)
            .filter_map(|(address, page)| is_away(page).then_some(address))
            .collect();
        for part in away.chunks(CALL_PAGES) {
            let mut batch = MoveBatch::new(false);
            part.iter().for_each(|&address| batch.push(address, home));
            process.move_pages(&batch)?;
            moved += part.len() as u64;
        }
    }
    Ok(moved)
}
