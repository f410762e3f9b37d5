//! The census of correct machines, and of machines with a planted bug.

use crate::common::{bound, machine, scenario, triad};
use nodeward_model::NodeId;
use nodeward_scenario::{Action, ActionKind, Bug, FaultInjection, Scenario};
use nodeward_sim::{Census, World};

const MS: u64 = 1_000_000;
/// Pages of 64 MiB.
const PAGES: u64 = 64 * 256;

/// Two processes that write to 64 MiB each on node 0, and a move of both to node 1 after 50 ms,
/// back and forth ten times.
fn moving(bug: Option<Bug>) -> Scenario {
    let mut machine = machine(2, 4, 1);
    machine.nodes[1].memory_bytes = 256 << 20;
    let mut scenario = scenario(machine, bound(triad(2, 64), "0"));
    scenario.workloads[0].populated = true;
    let (from, to) = (NodeId(0), NodeId(1));
    let kind = ActionKind::Migrate { from, to, times: 10 };
    scenario.actions = vec![Action { at_ns: 50 * MS, workload: "triad".to_owned(), kind }];
    scenario.faults = Some(FaultInjection { bug, ..FaultInjection::default() });
    scenario
}

fn after(scenario: &Scenario, ms: u64) -> (World, Census) {
    let mut world = World::new(scenario, 3);
    world.run_until(ms * MS);
    let census = world.census();
    (world, census)
}

/// Returns the sum of the accounted pages of a node.
fn sum(census: &Census, node: usize) -> u64 {
    let node = &census.nodes[node];
    node.free
        + node.in_lists
        + node.being_freed
        + node.copy_targets
        + node.kernel_pages
        + node.in_use
}

/// Goal: on a correct machine, counts and recounts agree in the middle of moves, all pages are
/// accounted for, and no copied page is stale, though threads wrote all the time.
#[test]
fn a_right_machine_has_its_pages_and_their_contents() {
    let mut world = World::new(&moving(None), 3);
    let (mut out_of_sight, mut landed) = (0, 0);
    for step in 1..=150 {
        world.run_until(step * MS + 123_456);
        let census = world.census();
        for (index, node) in census.nodes.iter().enumerate() {
            assert_eq!(sum(&census, index), node.capacity, "{node:?}");
            assert_eq!(node.in_use, node.in_use_by_counter);
            assert_eq!(node.in_lists, node.in_lists_by_counter);
            assert_eq!(Some(node.copy_targets), node.copy_targets_counted);
        }
        assert_eq!((census.stale_folios, &census.stale[..]), (0, &[][..]));
        out_of_sight += census.processes.iter().map(|process| process.in_flight).sum::<u64>();
        landed = census.mapped_copies.unwrap();
    }
    assert!(out_of_sight > 0, "some looks were in the middle of a batch");
    assert!(landed > PAGES, "{landed} pages");
    assert_eq!(world.counters.migrated_pages, landed);
}

/// Goal: without flushes, CPUs write to pages after their copies began, and the census detects it.
#[test]
fn without_flushes_pages_are_stale() {
    let (_, census) = after(&moving(Some(Bug::SkipFlush)), 150);
    assert!(census.stale_folios > 0);
    let page = census.stale[0];
    assert!(page.holds < page.written, "{page:?}");
}

/// Goal: a page that is missing from a copy has its old contents when it becomes visible.
#[test]
fn what_is_left_out_of_copies_is_stale() {
    let (_, census) = after(&moving(Some(Bug::StaleCopy)), 150);
    assert!(census.stale_folios > 0);
    assert_eq!(census.stale[0].holds, 0);
}

/// Goal: a page that is not freed is missing in the sum.
#[test]
fn lost_pages_are_missing() {
    let (world, census) = after(&moving(Some(Bug::LosePage)), 150);
    let lost: u64 = (0..2).map(|node| census.nodes[node].capacity - sum(&census, node)).sum();
    assert!(lost > 0);
    assert!(world.check_pages().is_err());
}

/// Goal: an account that counts pages twice differs from where the pages are. All 2 * 16384 pages
/// move, and each of the batches of 512 pages counts one of them twice.
#[test]
fn pages_counted_twice_are_more_than_there_are() {
    let mut scenario = moving(Some(Bug::DoubleCount));
    let (from, to) = (NodeId(0), NodeId(1));
    scenario.actions[0].kind = ActionKind::Migrate { from, to, times: 1 };
    let (world, census) = after(&scenario, 400);
    assert_eq!(census.nodes[1].in_use, 2 * PAGES);
    assert_eq!(world.moves[0].account.moved, 2 * PAGES + 2 * PAGES / 512);
}

/// Goal: a move of more pages than its destination has room for exceeds the node's capacity there.
#[test]
fn invented_pages_exceed_the_capacity() {
    let mut scenario = moving(Some(Bug::OverCapacity));
    scenario.machine.nodes[1].memory_bytes = 96 << 20;
    let (from, to) = (NodeId(0), NodeId(1));
    scenario.actions[0].kind = ActionKind::Migrate { from, to, times: 1 };
    let (_, census) = after(&scenario, 400);
    assert!(census.nodes[1].in_use > census.nodes[1].capacity, "{:?}", census.nodes);
    scenario.faults = Some(FaultInjection::default());
    let (_, census) = after(&scenario, 400);
    assert!(census.nodes[1].in_use <= census.nodes[1].capacity, "{:?}", census.nodes);
}

/// Goal: recording stamps changes nothing else.
#[test]
fn looking_at_contents_changes_no_run() {
    let watched = moving(None);
    let mut plain = watched.clone();
    plain.faults = None;
    assert_eq!(after(&watched, 150).0.trace_hash(), after(&plain, 150).0.trace_hash());
}
