//! Moves in passes on the fake machine: what has no room on the nearest node goes further.

use std::sync::Arc;

use nodeward_machine::fake::{FakeMachine, FakeProcess};
use nodeward_machine::{Liveness, Machine, Process};
use nodeward_model::{NodeId, NodePairs, Nodemask, Page, Pid, SkipReason};
use nodeward_mover::{
    Jobs, MoveControl, MoveOrder, MoveReport, MoveRequest, Selection, migrate_in_passes,
};

const PAGES: u64 = 3000;

fn pid(number: u32) -> Pid {
    Pid::new(number).unwrap()
}

/// A process on node 2 of three. The fake machine counts free pages for each process alone.
fn process(free: [u64; 2]) -> FakeProcess {
    let free_pages = [(NodeId(0), free[0]), (NodeId(1), free[1])].into();
    let pages = [Page::on(NodeId(2)); PAGES as usize];
    FakeProcess { free_pages, ..FakeProcess::with_pages(&pages) }
}

fn request(to: u32, processes: usize) -> MoveRequest {
    let pairs = NodePairs::all_to(&Nodemask::from_iter([NodeId(2)]), NodeId(to));
    MoveRequest {
        orders: vec![[MoveOrder { pairs, pages: None }].into(); processes],
        selection: Selection::default(),
        jobs: Jobs::Fixed(2),
        cpus: Vec::new(),
        rate_bytes_per_s: None,
        stall_ns: None,
        split_huge: false,
    }
}

fn run(machine: &FakeMachine, pids: &[Pid]) -> MoveReport {
    let open = |&pid: &Pid| machine.open_process(pid).unwrap();
    let processes: Vec<Arc<dyn Process>> = pids.iter().map(open).collect();
    let passes = [0, 1].map(|to| request(to, pids.len()));
    let live = MoveControl::default();
    migrate_in_passes(machine, &processes, &passes, &live, None).unwrap()
}

fn machine(processes: &[FakeProcess]) -> (FakeMachine, Vec<Pid>) {
    let machine = FakeMachine::with_topology(true, "3n 1c 1t 1GiB");
    let pids: Vec<Pid> = (1..).take(processes.len()).map(pid).collect();
    for (&pid, process) in pids.iter().zip(processes) {
        machine.spawn(pid, process.clone());
    }
    (machine, pids)
}

/// Goal: of 3000 pages the first node takes 1000, the second the other 2000; a process that fits
/// the first is not looked at again.
#[test]
fn what_has_no_room_goes_further() {
    let (machine, pids) = machine(&[process([1000, 9000]), process([9000, 9000])]);
    let report = run(&machine, &pids);
    let account = &report.processes[0].account;
    assert_eq!((account.moved, account.skipped_total()), (PAGES, 0));
    assert_eq!(report.processes[0].before, [(NodeId(2), PAGES)].into());
    assert_eq!(report.processes[0].after, [(NodeId(0), 1000), (NodeId(1), 2000)].into());
    assert_eq!(report.processes[1].after, [(NodeId(0), PAGES)].into());
    assert_eq!(machine.process(pids[1]).unwrap().residency(), [(NodeId(0), PAGES)].into());
}

/// Goal: if all destinations are full, the rest stays, with its reason, and each page is counted
/// once: 1000 + 500 arrive, 1500 stay.
#[test]
fn what_has_no_room_anywhere_stays() {
    let (machine, pids) = machine(&[process([1000, 500])]);
    let report = run(&machine, &pids);
    let account = report.account();
    assert_eq!((account.moved, account.selected()), (1500, PAGES));
    assert_eq!(account.skipped, [(SkipReason::NoMemory, 1500)].into());
    let residue = report.processes[0].residue;
    assert_eq!((residue.expected, residue.seen), (1500, 1500));
}

/// Goal: if the nearest node goes offline after it was chosen, everything goes further; if all go,
/// everything stays, with the kernel's reason.
#[test]
fn destinations_go_offline() {
    for (offline, after, skipped) in [(&[0][..], 1, None), (&[0, 1], 2, Some(PAGES))] {
        let (machine, pids) = machine(&[process([9000, 9000])]);
        offline.iter().for_each(|&node| machine.set_offline(NodeId(node), true));
        let report = run(&machine, &pids);
        assert_eq!(report.processes[0].after, [(NodeId(after), PAGES)].into());
        let told = skipped.map(|pages| (SkipReason::NotAllowed, pages));
        assert_eq!(report.account().skipped, told.into_iter().collect());
    }
}

/// Goal: a process whose cpuset forbids the nearest node goes to the one that it allows; one whose
/// cpuset has no other node stays whole, with the reason.
#[test]
fn a_cpuset_decides() {
    let forbids = |nodes: &[u32]| {
        let forbidden_nodes = nodes.iter().map(|&node| NodeId(node)).collect();
        FakeProcess { forbidden_nodes, ..process([9000, 9000]) }
    };
    let (machine, pids) = machine(&[forbids(&[0]), forbids(&[0, 1])]);
    let report = run(&machine, &pids);
    assert_eq!(report.processes[0].after, [(NodeId(1), PAGES)].into());
    let account = &report.processes[1].account;
    assert_eq!(account.skipped, [(SkipReason::NotAllowed, PAGES)].into());
    assert_eq!(account.moved, 0);
}

/// Goal: a page that stays for another reason stays with that reason after every pass.
#[test]
fn other_reasons_hold() {
    let mut held = process([1000, 9000]);
    held.pinned = [16].into();
    let (machine, pids) = machine(&[held]);
    let account = run(&machine, &pids).account();
    assert_eq!((account.moved, account.selected()), (PAGES - 1, PAGES));
    assert_eq!(account.skipped, [(SkipReason::Pinned, 1)].into());
}

/// Goal: a process that ends between the passes costs its own pages only.
#[test]
fn a_process_that_ends_meanwhile() {
    let mut ends = process([0, 9000]);
    ends.end_at_call = Some((1, Liveness::Exited));
    let (machine, pids) = machine(&[ends, process([1000, 9000])]);
    let report = run(&machine, &pids);
    assert_eq!(report.processes[0].life, Liveness::Exited);
    assert_eq!(report.processes[1].account.moved, PAGES);
}
