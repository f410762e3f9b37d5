//! Moves with a deadline on the fake machine: they end by it, tell what is left, and the next move
//! of the same pages goes on.

use std::sync::Arc;

use nodeward_machine::Machine;
use nodeward_machine::fake::{FakeMachine, FakeProcess};
use nodeward_model::{NodeId, NodePairs, Nodemask, Page, Pid, SkipReason};
use nodeward_mover::{
    Jobs, MoveControl, MoveDeadline, MoveOrder, MoveReport, MoveRequest, Selection, StopReason,
    migrate, migrate_in_passes,
};

const SECOND_NS: u64 = 1_000_000_000;

fn pid() -> Pid {
    Pid::new(7).unwrap()
}

/// A machine on which it takes 10 us to look at a page, with this process.
fn slow(process: FakeProcess) -> Arc<FakeMachine> {
    let machine = FakeMachine::with_topology(true, "3n 1c 1t 1GiB");
    machine.spawn(pid(), FakeProcess { read_ns: 10_000, locate_ns: 10_000, ..process });
    Arc::new(machine)
}

fn pages_on_node_0(pages: usize) -> FakeProcess {
    FakeProcess::with_pages(&vec![Page::on(NodeId(0)); pages])
}

fn to(node: u32) -> MoveRequest {
    let pairs = NodePairs::all_to(&Nodemask::from_iter([NodeId(0)]), NodeId(node));
    MoveRequest {
        orders: vec![[MoveOrder { pairs, pages: None }].into()],
        selection: Selection::default(),
        jobs: Jobs::Fixed(2),
        cpus: Vec::new(),
        rate_bytes_per_s: None,
        stall_ns: None,
        split_huge: false,
    }
}

fn run(machine: &Arc<FakeMachine>, time_ns: Option<u64>) -> MoveReport {
    let clock = Arc::clone(machine);
    let deadline = time_ns.map(|ns| MoveDeadline::after(ns, move || clock.now_ns()));
    let process = machine.open_process(pid()).unwrap();
    migrate(&**machine, &[process], &to(1), &MoveControl::until(deadline), None).unwrap()
}

/// Goal: of a move that takes 4 s (2 to look at 200,000 pages, 2 to verify) some is done within
/// 2 s, and the rest is told: each page is moved, stopped or in addresses that nobody looked at.
/// Another move brings what was left.
#[test]
fn what_is_left_is_told_and_goes_on() {
    let machine = slow(pages_on_node_0(200_000));
    let report = run(&machine, Some(2 * SECOND_NS));
    // Looks cannot be ended: a unit has up to 32,768 pages, which two workers look at in turn.
    assert!(machine.now_ns() < 2_700_000_000, "{} ns", machine.now_ns());
    let account = report.account();
    let unexamined = report.processes[0].unexamined_bytes / 4096;
    let stopped = account.skipped_for(SkipReason::Interrupted);
    assert_eq!(report.stopped, Some(StopReason::Deadline));
    assert!(account.moved > 0 && unexamined > 0 && !report.is_verified());
    assert_eq!(account.moved + stopped + unexamined, 200_000);
    let rest = run(&machine, None);
    assert_eq!((rest.account().already_there, rest.account().moved), {
        (account.moved, 200_000 - account.moved)
    });
    assert_eq!((rest.stopped, rest.is_verified()), (None, true));
}

/// Goal: a deadline that comes while the last look finds everything in place has ended nothing. The
/// look at 4096 pages ends at 41 ms, the move at 45 ms, the last look begins its second half at
/// 66 ms and ends at 86 ms.
#[test]
fn what_was_done_in_time_is_done() {
    let machine = slow(pages_on_node_0(4096));
    let report = run(&machine, Some(110_000_000));
    assert!((55_000_000..110_000_000).contains(&machine.now_ns()), "{}", machine.now_ns());
    assert_eq!((report.account().moved, report.stopped), (4096, None));
    assert!(report.is_verified());
}

/// Goal: pages that had no room before the deadline are not sent elsewhere after it, and that is
/// told. Of 3000 pages node 1 takes 1000; then it is too late to move more, but not to look.
#[test]
fn no_pass_begins_too_late() {
    let free_pages = [(NodeId(1), 1000)].into();
    let machine = slow(FakeProcess { free_pages, ..pages_on_node_0(3000) });
    let there = Arc::clone(&machine);
    let clock = move || 5 * u64::from(there.process(pid()).unwrap().free_pages[&NodeId(1)] == 0);
    let live = MoveControl::until(Some(MoveDeadline::after(10, clock)));
    let process = [machine.open_process(pid()).unwrap()];
    let report = migrate_in_passes(&*machine, &process, &[to(1), to(2)], &live, None).unwrap();
    let account = report.account();
    let stayed = account.skipped_for(SkipReason::NoMemory);
    let stopped = account.skipped_for(SkipReason::Interrupted);
    assert_eq!((account.moved, stayed + stopped), (1000, 2000));
    assert_eq!((report.stopped, report.is_verified()), (Some(StopReason::Deadline), true));
    assert_eq!(machine.process(pid()).unwrap().residency()[&NodeId(0)], 2000);
}

/// Goal: waiting for the rate ends, too. The second of two folios of 2 MiB may go 2 s after the
/// first at 1 MiB/s; the time to move ends after 0.5 s.
#[test]
fn a_low_rate_does_not_delay_the_end() {
    let mut pages = vec![Page { folio_pages: 0, ..Page::on(NodeId(0)) }; 1024];
    pages[0].folio_pages = 512;
    pages[512].folio_pages = 512;
    let machine = slow(FakeProcess::with_pages(&pages));
    let clock = Arc::clone(&machine);
    let live = MoveControl::until(Some(MoveDeadline::after(SECOND_NS, move || clock.now_ns())));
    let process = [machine.open_process(pid()).unwrap()];
    let request = MoveRequest { rate_bytes_per_s: Some(1 << 20), jobs: Jobs::Fixed(1), ..to(1) };
    let report = migrate(&*machine, &process, &request, &live, None).unwrap();
    assert!(machine.now_ns() < SECOND_NS, "{} ns", machine.now_ns());
    let account = report.account();
    let stopped = account.skipped_for(SkipReason::Interrupted);
    assert_eq!((account.moved, stopped, report.stopped), (512, 512, Some(StopReason::Deadline)));
}
