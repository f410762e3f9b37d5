//! Launch placement.

use nodeward_balancer::{Launch, home_of_launch};
use nodeward_machine::Machine as _;
use nodeward_machine::fake::{FakeMachine, FakeProcess};
use nodeward_model::{NodeId, Nodemask};

use crate::stage::*;

/// Returns the home of pid 7, which starts on node 0, on a machine of `nodes` nodes of 4 CPUs. A
/// process with one busy thread runs on each of the CPUs `busy`.
fn home(nodes: u32, busy: &[u32], usable: &str) -> Option<NodeId> {
    home_beside(
        &FakeMachine::with_topology(true, &format!("{nodes}n 4c 1t 1GiB")),
        nodes,
        busy,
        usable,
    )
}

fn home_beside(fake: &FakeMachine, nodes: u32, busy: &[u32], usable: &str) -> Option<NodeId> {
    home_outside(fake, nodes, busy, usable, "")
}

/// As `home_beside`, while the nodes `kept` are kept empty.
fn home_outside(
    fake: &FakeMachine,
    nodes: u32,
    busy: &[u32],
    usable: &str,
    kept: &str,
) -> Option<NodeId> {
    for (&cpu, number) in busy.iter().zip(10..) {
        fake.spawn(pid(number), fake_process([0, 0], cpu, &format!("0-{}", nodes * 4 - 1)));
    }
    let usable = cpus(usable);
    let keep_empty: &Nodemask = &kept.parse().unwrap();
    let us = Launch { pid: pid(7), node: Some(NodeId(0)), usable: &usable, keep_empty };
    home_of_launch(fake, &us).unwrap()
}

/// Goal: a program starts where CPUs are idle; if they are idle everywhere, it stays.
#[test]
fn it_goes_where_there_is_time() {
    assert_eq!(home(2, &[], "0-7"), Some(NodeId(0)));
    // Five threads on the four CPUs of node 0, none on node 1.
    assert_eq!(home(2, &[0, 1, 2, 3, 0], "0-7"), Some(NodeId(1)));
    assert_eq!(home(2, &[4, 5, 6, 7, 4], "0-7"), Some(NodeId(0)));
}

/// Goal: an affinity is obeyed, and a machine with one node has its home there.
#[test]
fn it_goes_where_it_may() {
    assert_eq!(home(2, &[0, 1, 2, 3, 0], "0-3"), Some(NodeId(0)));
    assert_eq!(home(2, &[], "4-7"), Some(NodeId(1)));
    assert_eq!(home(1, &[0, 1], "0-3"), Some(NodeId(0)));
    assert_eq!(home(2, &[], "8-9"), None, "no such CPU");
}

/// Goal: no program starts on a node that is kept empty, however idle that is, also if it starts
/// there otherwise, and if one other node is left; and not at all if it may use no other.
#[test]
fn it_leaves_nodes_empty() {
    let home = |nodes: u32, busy: &[u32], usable: &str, kept: &str| {
        let fake = FakeMachine::with_topology(true, &format!("{nodes}n 4c 1t 1GiB"));
        home_outside(&fake, nodes, busy, usable, kept)
    };
    let full = [0, 1, 2, 3, 0]; // five threads on the four CPUs of node 0
    assert_eq!(home(3, &full, "0-11", "1"), Some(NodeId(2)));
    assert_eq!(home(2, &full, "0-7", "1"), Some(NodeId(0)), "no other node is left");
    assert_eq!(home(2, &[], "0-7", "0"), Some(NodeId(1)), "it is on node 0");
    assert_eq!(home(3, &[], "0-11", "0,2"), Some(NodeId(1)));
    assert_eq!(home(2, &[], "0-3", "0"), None, "it may use node 0 only");
    assert_eq!(home(3, &[], "0-3,8-11", "0,2"), None, "it may use nodes 0 and 2 only");
}

/// Goal: its cpuset is obeyed, and the program that has its pid now is no load.
#[test]
fn it_replaces_what_has_its_pid() {
    let fake = FakeMachine::with_topology(true, "2n 4c 1t 1GiB");
    let many = (0..8).map(|tid| (tid, fake_process([0, 0], tid % 4, "0-7").threads[&1].clone()));
    fake.spawn(pid(7), FakeProcess { threads: many.collect(), ..fake_process([0, 0], 0, "0-7") });
    assert_eq!(home_beside(&fake, 2, &[], "0-7"), Some(NodeId(0)));
    fake.update_process(pid(7), |fake_process| fake_process.forbidden_nodes = [NodeId(0)].into());
    assert_eq!(home_beside(&fake, 2, &[], "0-7"), Some(NodeId(1)));
}

/// Goal: the program that is about to start does not wait for long. numactl(8) takes about 40 ms in
/// the lab before a program starts.
#[test]
fn it_starts_soon() {
    let fake = FakeMachine::with_topology(true, "2n 4c 1t 1GiB");
    let began_ns = fake.now_ns();
    assert_eq!(home_beside(&fake, 2, &[0, 1, 2, 3, 0], "0-7"), Some(NodeId(1)));
    let waited_ns = fake.now_ns() - began_ns;
    assert!(waited_ns <= 20_000_000, "{waited_ns} ns");
}
