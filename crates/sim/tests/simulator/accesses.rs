//! The access counters of memory controllers.

use crate::common::{machine, scenario, triad};
use nodeward_model::{Accessor, NodeId, Nodemask};
use nodeward_policy::hot::PageAccessCounts;
use nodeward_scenario::MemoryPlacement;
use nodeward_sim::{SimMachine, World};

const MS: u64 = 1_000_000;

fn world(entries: u64) -> World {
    let mut scenario = scenario(machine(2, 2, 4), triad(1, 4));
    // Memory of node 1, used from node 0.
    scenario.workloads[0].placement = MemoryPlacement::Bind([NodeId(1)].into_iter().collect());
    scenario.workloads[0].nodes = Some([NodeId(0)].into_iter().collect::<Nodemask>());
    scenario.machine.params.counter_entries = entries;
    let mut world = World::new(&scenario, 1);
    world.run_until(200 * MS);
    world
}

/// Goal: every line is counted or reported as lost, on the node of its memory, by the node that
/// requested it.
#[test]
fn lines_are_counted_by_page_and_node() {
    let mut world = world(1 << 20);
    let lines = world.counters.local_lines + world.counters.remote_lines;
    assert_eq!(world.take_accesses(0), []);
    let seen = world.take_accesses(1);
    assert!(seen.iter().all(|page| page.from == NodeId(0) && page.address % 4096 == 0));
    assert_eq!(seen.iter().map(|page| page.lines).sum::<u64>(), lines);
    assert_eq!(world.lost_accesses(), 0);
    assert_eq!(world.take_accesses(1), [], "reading clears");
}

/// Goal: there are no more counters than configured, and their counts are valid input for the
/// choice of hot pages.
#[test]
fn counters_are_bounded() {
    let mut world = world(64);
    let lines = world.counters.local_lines + world.counters.remote_lines;
    let seen = world.take_accesses(1);
    assert_eq!(seen.len(), 64);
    let counted = seen.iter().map(|page| page.lines).sum::<u64>();
    assert_eq!(counted + world.lost_accesses(), lines);
    let mut counts = PageAccessCounts::new(4096);
    seen.iter().for_each(|page| counts.add(page.address, page.from, page.lines));
    assert_eq!(counts.pages().count(), 64);
}

/// Goal: a machine reports the process and the requesting node of counted accesses. A machine that
/// counts nothing says so, which differs from counting zero accesses.
#[test]
fn machines_tell_what_they_count() {
    let taken = |entries: u64| {
        let mut scenario = scenario(machine(2, 2, 4), triad(1, 4));
        scenario.machine.params.counter_entries = entries;
        let machine = SimMachine::new(&scenario, 1);
        machine.run_until(200 * MS);
        let pid = machine.processes()[0].pid;
        machine.take_accesses().map(|seen| (pid, seen))
    };
    let (pid, seen) = taken(1 << 20).unwrap();
    assert!(!seen.is_empty());
    assert!(
        seen.iter().all(|&(whose, it)| whose == pid && it.accessor == Accessor::Node(NodeId(0)))
    );
    assert_eq!(taken(0), None);
}

/// Goal: without counters nothing is counted.
#[test]
fn without_counters_nothing_is_counted() {
    let mut world = world(0);
    assert_eq!(world.take_accesses(1), []);
    assert_eq!(world.lost_accesses(), 0);
}
