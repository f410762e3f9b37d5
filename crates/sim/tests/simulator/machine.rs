//! The mover moves memory of a simulated machine as it does on a real kernel.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::common::{bound, machine, scenario, triad};
use nodeward_machine::{Liveness, Machine};
use nodeward_model::{CpuId, NodeId, NodePairs, Pid, Range, SkipReason};
use nodeward_mover::{Jobs, MoveControl, MoveOrder, MoveReport, MoveRequest, Selection, migrate};
use nodeward_sim::SimMachine;

const MIB: u64 = 64;
const PAGES: u64 = MIB << 20 >> 12;

/// A machine of two nodes of 8 CPUs, and a process of 64 MiB on node 0.
fn machine_with_a_process() -> (SimMachine, Pid) {
    let sim = SimMachine::new(&scenario(machine(2, 8, 4), bound(triad(1, MIB), "0")), 3);
    sim.run_until_populated(1_000_000_000);
    let pid = sim.processes()[0].pid;
    (sim, pid)
}

/// Moves it to node 1 with `jobs` workers on that node.
fn move_it(sim: &SimMachine, pid: Pid, jobs: u32) -> MoveReport {
    move_from(sim, pid, jobs, (8..16).map(CpuId).collect())
}

/// Moves it to node 1 with `jobs` workers, on these CPUs or on any.
fn move_from(sim: &SimMachine, pid: Pid, jobs: u32, cpus: Vec<CpuId>) -> MoveReport {
    let processes = [sim.open_process(pid).unwrap()];
    let pairs = NodePairs::from_lists(&[NodeId(0)], &[NodeId(1)]);
    let orders: Arc<[MoveOrder]> = [MoveOrder { pairs, pages: None }].into();
    let request = MoveRequest {
        orders: vec![orders],
        selection: Selection::default(),
        jobs: Jobs::Fixed(jobs),
        cpus,
        rate_bytes_per_s: None,
        stall_ns: None,
        split_huge: false,
    };
    migrate(sim, &processes, &request, &MoveControl::default(), None).unwrap()
}

/// Moves with `jobs` workers. Returns the report and the trace hash.
fn moved(jobs: u32) -> (MoveReport, u64) {
    let (sim, pid) = machine_with_a_process();
    let report = move_it(&sim, pid, jobs);
    (report, sim.trace_hash())
}

/// Returns the pages of the 64 MiB that stayed, by reason; all others have moved.
fn left(report: &MoveReport) -> BTreeMap<SkipReason, u64> {
    let account = report.account();
    assert_eq!(account.moved + account.skipped_total(), PAGES, "{account:?}");
    account.skipped
}

/// Goal: every page arrives, and four workers take between a quarter and all of the time of one.
#[test]
fn more_workers_are_faster_and_lose_nothing() {
    let [one, four] = [1, 4].map(|jobs| moved(jobs).0);
    for report in [&one, &four] {
        assert_eq!(report.account().moved, PAGES);
        assert_eq!(report.account().skipped_total(), 0);
        assert_eq!(report.processes[0].after, [(NodeId(1), PAGES)].into());
        assert_eq!(report.processes[0].residue.expected, report.processes[0].residue.seen);
    }
    println!("1: {} ns, 4: {} ns", one.moving_ns, four.moving_ns);
    assert!(one.moving_ns < 4 * four.moving_ns, "{} and {}", one.moving_ns, four.moving_ns);
    assert!(one.moving_ns > 2 * four.moving_ns, "{} and {}", one.moving_ns, four.moving_ns);
}

/// Goal: where every CPU has a program to run and workers may run anywhere, they do not all wait
/// for the same CPU: four take less than a third of the time of one.
#[test]
fn workers_go_where_the_fewest_wait() {
    let moving_ns = |jobs| {
        let busy = scenario(machine(2, 8, 4), bound(triad(32, MIB), "0"));
        let sim = SimMachine::new(&busy, 3);
        sim.run_until_populated(10_000_000_000);
        let pid = sim.processes()[0].pid;
        move_from(&sim, pid, jobs, Vec::new()).moving_ns
    };
    let [one, four] = [1, 4].map(moving_ns);
    assert!(one > 3 * four, "{one} and {four}");
}

/// Goal: the assignment of work to workers does not depend on host threads.
#[test]
fn workers_are_deterministic() {
    for jobs in [1, 4] {
        let told = |(report, hash): (MoveReport, u64)| (report.moving_ns, hash);
        let first = told(moved(jobs));
        for run in 0..20 {
            assert_eq!(told(moved(jobs)), first, "run {run} with {jobs} workers");
        }
    }
}

/// Goal: the four pinned pages stay, and no other.
#[test]
fn held_pages_stay() {
    let (sim, pid) = machine_with_a_process();
    let start = sim.open_process(pid).unwrap().mappings().unwrap()[0].range.start;
    for page in [0, 511, 700, 16_383] {
        assert!(sim.pin(pid, start + page * 4096));
    }
    let report = move_it(&sim, pid, 3);
    assert_eq!(left(&report), [(SkipReason::Pinned, 4)].into());
    assert_eq!(report.processes[0].after, [(NodeId(0), 4), (NodeId(1), PAGES - 4)].into());
}

/// Goal: a node takes as many pages as it has room for, and the rest stays where it was.
#[test]
fn a_node_fills_up() {
    let (sim, pid) = machine_with_a_process();
    sim.limit_free_pages(NodeId(1), 10_000);
    let report = move_it(&sim, pid, 2);
    let arrived = report.processes[0].after[&NodeId(1)];
    assert_eq!(left(&report), [(SkipReason::NoMemory, PAGES - arrived)].into());
    // Lists of CPUs may keep a few for later allocations.
    assert!((9_000..=10_000).contains(&arrived), "{arrived}");
}

/// Goal: a process that ends during a move is reported as gone, and so are the pages that were
/// looked up and had not arrived; its memory is free afterwards.
#[test]
fn a_process_ends_on_the_way() {
    let (sim, pid) = machine_with_a_process();
    let free = || -> u64 {
        let nodes = sim.topology().unwrap().nodes;
        nodes.values().map(|node| node.free_bytes.unwrap() / 4096).sum()
    };
    let before = free();
    let whole_ns = moved(4).0.moving_ns;
    sim.kill_at(pid, sim.now_ns() + whole_ns * 3 / 4);
    let report = move_it(&sim, pid, 4);
    assert_eq!(report.processes[0].life, Liveness::Exited);
    let account = report.account();
    assert_eq!(account.skipped.keys().collect::<Vec<_>>(), [&SkipReason::Gone]);
    assert!(account.moved > 0 && account.selected() <= PAGES, "{account:?}");
    sim.run_until(sim.now_ns() + 10_000_000);
    assert_eq!(free(), before + PAGES, "no page is lost");
    assert!(sim.processes().is_empty());
}

/// Goal: a huge page moves as one folio, at a fraction of the time of its 512 pages.
#[test]
fn huge_pages_move_whole() {
    let (sim, pid) = machine_with_a_process();
    assert_eq!(sim.make_huge(pid), MIB / 2);
    let huge = move_it(&sim, pid, 1);
    assert_eq!(left(&huge), BTreeMap::new());
    assert_eq!(sim.open_process(pid).unwrap().populated(Range::new(0, u64::MAX)).unwrap().len(), 1);
    let base = moved(1).0;
    assert!(huge.moving_ns < base.moving_ns, "{} and {}", huge.moving_ns, base.moving_ns);
}
