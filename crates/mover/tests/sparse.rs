//! Moves of processes that are nearly all reserved addresses, on a machine that does not list what
//! is populated: mappings without pages are not looked at, and nearly empty ones are left to a walk
//! inside the kernel.

use nodeward_machine::Machine;
use nodeward_machine::fake::{FakeMachine, FakeProcess};
use nodeward_model::{Mapping, NodeId, NodePairs, Page, Pid, Range, SkipReason};
use nodeward_mover::{
    DistinctPages, Jobs, MoveControl, MoveOrder, MoveReport, MoveRequest, Selection, migrate, plan,
};

const PAGE: u64 = 4096;
const GIB: u64 = 1 << 30;

fn pid() -> Pid {
    Pid::new(7).unwrap()
}

/// 100 pages on node 0 in a mapping of their own; behind it 4 GiB with 10 pages on node 0 and 5 on
/// node 1, and 1 TiB without any.
fn reserved() -> FakeProcess {
    let mut process = FakeProcess::with_pages(&[Page::on(NodeId(0)); 100]);
    let dense = process.mappings[0].clone();
    let mapping =
        |start, bytes| Mapping { range: Range::new(start, start + bytes), ..dense.clone() };
    process.mappings.extend([mapping(GIB, 4 * GIB), mapping(8 * GIB, 1024 * GIB)]);
    for page in 0..15 {
        let node = NodeId(u32::from(page >= 10));
        process.pages.insert(GIB / PAGE + page * 60_000, Page::on(node));
    }
    process
}

fn request(from: u32, to: u32) -> MoveRequest {
    let pairs = NodePairs::from_lists(&[NodeId(from)], &[NodeId(to)]);
    MoveRequest {
        orders: vec![[MoveOrder { pairs, pages: None }].into()],
        selection: Selection::default(),
        jobs: Jobs::Fixed(1),
        cpus: Vec::new(),
        rate_bytes_per_s: None,
        stall_ns: None,
        split_huge: false,
    }
}

/// Moves the process; returns the report and the process afterwards.
fn run(process: FakeProcess, request: &MoveRequest) -> (MoveReport, FakeProcess) {
    let machine = FakeMachine::new(true).without_pagemap_scan();
    machine.spawn(pid(), process);
    let process = machine.open_process(pid()).unwrap();
    let report = migrate(&machine, &[process], request, &MoveControl::default(), None).unwrap();
    (report, machine.process(pid()).unwrap())
}

/// Goal: all pages move and are accounted for, and nobody has read the page tables of a terabyte:
/// two reads are of the 100 pages, before and after.
#[test]
fn a_walk_moves_what_nobody_looks_for() {
    let (report, process) = run(reserved(), &request(0, 1));
    let account = report.account();
    assert_eq!((account.moved, account.already_there, account.skipped_total()), (110, 5, 0));
    assert_eq!((report.walked_pages, process.walks), (10, 1));
    assert_eq!(report.flows, [((NodeId(0), NodeId(1)), 110)].into());
    assert_eq!(process.residency(), [(NodeId(1), 115)].into());
    let seen = &report.processes[0];
    assert_eq!(seen.before, [(NodeId(0), 110), (NodeId(1), 5)].into());
    assert_eq!(seen.after, [(NodeId(1), 115)].into());
    assert!(seen.verified && seen.residue.appeared() == 0);
    assert_eq!(process.page_reads, 2);
}

/// Goal: a plan counts what a walk would move, and moves nothing.
#[test]
fn a_plan_has_the_pages_of_a_walk() {
    let machine = FakeMachine::new(true).without_pagemap_scan();
    machine.spawn(pid(), reserved());
    let process = machine.open_process(pid()).unwrap();
    let report = plan(&machine, &[process], &request(0, 1), &MoveControl::default()).unwrap();
    let total = report.total();
    assert_eq!((total.pages(), total.account.already_there, total.seen()), (110, 5, 115));
    assert_eq!(machine.process(pid()).unwrap().walks, 0);
}

/// Goal: what a walk leaves is told with a reason: two pinned pages; and the rest if the
/// destination has room for 104 pages, 100 of which the others take.
#[test]
fn what_a_walk_leaves_has_a_reason() {
    let mut process = reserved();
    process.pinned = [GIB / PAGE, GIB / PAGE + 60_000].into();
    let (report, _) = run(process, &request(0, 1));
    assert_eq!(report.account().skipped, [(SkipReason::Pinned, 2)].into());
    assert_eq!((report.account().moved, report.account().selected()), (108, 115));
    assert_eq!(report.processes[0].residue.seen, 2);

    let mut process = reserved();
    process.free_pages = [(NodeId(1), 104)].into();
    let (report, _) = run(process, &request(0, 1));
    assert_eq!(report.account().skipped, [(SkipReason::NoMemory, 6)].into());
    assert_eq!(report.walked_pages, 4);
}

/// Goal: after a stop no walk begins, and its pages count as interrupted.
#[test]
fn a_stopped_move_does_not_walk() {
    let machine = FakeMachine::new(true).without_pagemap_scan();
    machine.spawn(pid(), reserved());
    let process = machine.open_process(pid()).unwrap();
    let live = MoveControl::default();
    live.stop();
    let report = migrate(&machine, &[process], &request(0, 1), &live, None).unwrap();
    assert_eq!(report.account().skipped, [(SkipReason::Interrupted, 110)].into());
    assert_eq!(machine.process(pid()).unwrap().walks, 0);
}

/// Goal: a move with a pace, or of a part of the memory, looks for its pages: a walk knows neither.
/// Nobody looks at the terabyte without pages: 4 GiB have 2048 page tables.
#[test]
fn a_walk_is_not_made_where_it_would_move_too_much() {
    let slow = MoveRequest { stall_ns: Some(1_000_000_000), ..request(0, 1) };
    let behind = vec![Range::new(GIB, 2 * GIB)];
    let selection = Selection { ranges: behind, ..Selection::default() };
    let part = MoveRequest { selection, ..request(0, 1) };
    // Pages 0, 60,000, 120,000, 180,000 and 240,000 of 262,144 are in the first GiB.
    for (request, moved) in [(slow, 110), (part, 5)] {
        let (report, process) = run(reserved(), &request);
        assert_eq!((report.account().moved, process.walks), (moved, 0));
        assert!(process.page_reads < 4096, "{}", process.page_reads);
    }
}

/// Goal: several processes are counted together by their frames; where pages are in terabytes of
/// addresses, or after a stop, that is given up.
#[test]
fn distinct_pages_are_not_looked_for_in_terabytes() {
    let machine = FakeMachine::new(true).without_pagemap_scan();
    let mut dense = reserved();
    dense.mappings.truncate(1);
    let other = Pid::new(8).unwrap();
    machine.spawn(pid(), dense);
    machine.spawn(other, reserved());
    let [process, sparse] = [pid(), other].map(|pid| machine.open_process(pid).unwrap());
    let (all, live) = (Selection::default(), MoveControl::default());
    let mut distinct = DistinctPages::new(&machine);
    assert!(distinct.add(&*process, &all, &live).unwrap());
    assert!(!distinct.add(&*sparse, &all, &live).unwrap());
    live.stop();
    assert!(!DistinctPages::new(&machine).add(&*process, &all, &live).unwrap());
    assert_eq!(distinct.into_nodes(), [(NodeId(0), 100)].into());
}
