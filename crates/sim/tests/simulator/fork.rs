//! Processes that fork share pages with their children until one is written to.

use crate::common::{bound, machine, scenario, triad};
use nodeward_machine::{EntryRefusal, EntryStatus, Machine, MovePagesCall};
use nodeward_model::NodeId;
use nodeward_scenario::{
    AccessPattern, Action, ActionKind, FaultInjection, Scenario, SharedLines, WorkloadKind,
};
use nodeward_sim::{SimMachine, World};

const MS: u64 = 1_000_000;
/// Pages of 64 MiB.
const PAGES: u64 = 64 * 256;

fn fork(at_ms: u64, for_ms: u64) -> Action {
    let kind = ActionKind::Fork { for_ns: for_ms * MS };
    Action { at_ns: at_ms * MS, workload: "triad".to_owned(), kind }
}

/// A process of 64 MiB on node 0 that goes through its memory and writes to `writes_milli` of 1000
/// lines.
fn forking(writes_milli: u32, actions: Vec<Action>) -> Scenario {
    let mut scenario = scenario(machine(2, 4, 1), bound(triad(1, 64), "0"));
    let access = AccessPattern { parallel_milli: 10_000, compute_ps: 1000, writes_milli };
    scenario.workloads[0].kind =
        WorkloadKind::Triad { access, shared: SharedLines::default(), passes: 0 };
    scenario.workloads[0].populated = true;
    scenario.actions = actions;
    scenario.faults = Some(FaultInjection::default());
    scenario
}

/// Returns the pages of the process, and of its children.
fn pages(world: &World) -> (u64, u64) {
    let census = world.census();
    let of = |at: usize| census.processes[at].pages.iter().sum::<u64>();
    (of(0), (1..census.processes.len()).map(of).sum())
}

/// Goal: a process that writes gets copies, and the child keeps the old pages until it ends. The
/// process goes past all of its 16384 pages in 20 ms: at 6.4 GB/s or more 64 MiB take 10 ms.
#[test]
fn what_is_written_is_copied() {
    let mut world = World::new(&forking(1000, vec![fork(50, 100)]), 1);
    world.run_until(50 * MS - 1);
    assert_eq!(pages(&world), (PAGES, 0));
    let mut last = 0;
    for ms in 51..=145 {
        world.run_until(ms * MS);
        let (parent, child) = pages(&world);
        assert_eq!(parent, PAGES);
        assert!(child >= last && child == world.counters.copied_on_write, "{child} after {last}");
        assert_eq!(world.check_pages(), Ok(()));
        last = child;
    }
    assert!(last > PAGES * 9 / 10, "{last}");
    world.run_until(200 * MS);
    assert_eq!((pages(&world), world.counters.forks), ((PAGES, 0), 1));
    assert_eq!(world.check_pages(), Ok(()));
}

/// Goal: a process that only reads shares all pages.
#[test]
fn what_is_read_stays_shared() {
    let mut world = World::new(&forking(0, vec![fork(50, 100), fork(60, 200)]), 1);
    world.run_until(140 * MS);
    assert_eq!(pages(&world), (PAGES, 0));
    assert_eq!((world.counters.forks, world.counters.copied_on_write), (1, 0));
}

/// Goal: a call that may move only a process's own pages leaves shared pages and reports them; a
/// call for everyone's pages moves them; and without a child they are the process's own.
#[test]
fn shared_pages_need_a_call_for_all() {
    let machine = SimMachine::new(&forking(0, vec![fork(50, 500)]), 1);
    let process = machine.open_process(machine.processes()[0].pid).unwrap();
    let start = process.mappings().unwrap()[0].range.start;
    // 100 pages of 4 KiB each time, and the call's status of the first.
    let moved = |first: u64, move_shared: bool| {
        let mut batch = MovePagesCall::new(move_shared);
        (first..first + 100).for_each(|page| batch.push(start + page * 4096, NodeId(1)));
        let before = machine.census().nodes[1].in_use;
        let status = process.move_pages(&batch).unwrap().status[0];
        (status, machine.census().nodes[1].in_use - before)
    };
    machine.run_until(60 * MS);
    assert_eq!(machine.processes().len(), 2);
    assert_eq!(moved(0, false), (EntryStatus::Refused(EntryRefusal::Shared), 0));
    assert_eq!(moved(100, true), (EntryStatus::On(NodeId(1)), 100));
    machine.run_until(600 * MS);
    assert_eq!(machine.processes().len(), 1);
    assert_eq!(moved(200, false), (EntryStatus::On(NodeId(1)), 100));
}

/// Goal: without memory for copies pages stay shared, and none is created. 96 MiB have room for 32
/// MiB of copies.
#[test]
fn copies_end_with_the_memory() {
    let mut scenario = forking(1000, vec![fork(50, 200)]);
    scenario.machine.nodes.iter_mut().for_each(|node| node.memory_bytes = 96 << 20);
    let mut world = World::new(&scenario, 1);
    world.run_until(200 * MS);
    let census = world.census();
    assert!(census.nodes[0].in_use > census.nodes[0].capacity * 9 / 10, "{:?}", census.nodes);
    assert_eq!(pages(&world).0, PAGES);
    assert_eq!(world.check_pages(), Ok(()));
}

/// Goal: forks in the middle of moves, of exits and of other forks lose no page.
#[test]
fn forks_at_the_worst_moment() {
    let kind = ActionKind::Migrate { from: NodeId(0), to: NodeId(1), times: 20 };
    let mut actions = vec![Action { at_ns: 50 * MS, workload: "triad".to_owned(), kind }];
    actions.extend((0..20).map(|round| fork(51 + round * 7, 5)));
    let kind = ActionKind::Kill;
    actions.push(Action { at_ns: 150 * MS, workload: "triad".to_owned(), kind });
    let mut scenario = forking(500, actions);
    scenario.actions.sort_by_key(|action| action.at_ns);
    assert_eq!(scenario.check(), Ok(()));
    let mut world = World::new(&scenario, 1);
    for ms in 51..=250 {
        world.run_until(ms * MS);
        assert_eq!(world.check_pages(), Ok(()), "after {ms} ms");
        assert_eq!(world.census().stale, []);
    }
    assert!(world.counters.forks > 5 && world.counters.copied_on_write > 0);
    let census = world.census();
    assert!(census.nodes.iter().all(|node| node.in_use + node.copy_targets == 0), "{census:?}");
}
