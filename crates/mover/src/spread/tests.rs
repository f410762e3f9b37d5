//! Goal: every mapping and segment is evened by itself, each page of it once; no folio is split.

use std::collections::BTreeSet;

use nodeward_machine::fake::{FakeMachine, FakeProcess};
use nodeward_machine::{Liveness, MovePagesCall, Process};
use nodeward_model::{Account, Page, Pid, SegmentPart, SkipReason};

use super::*;
use crate::{Jobs, MoveRequest, Selection, migrate};

const PAGE: u64 = 4096;
/// The first page of a fake process.
const FIRST: u64 = 16;

fn pid(number: u32) -> Pid {
    Pid::new(number).unwrap()
}

fn equal(nodes: u32) -> Weights {
    Weights::new((0..nodes).map(|node| (NodeId(node), 1))).unwrap()
}

/// Returns the processes of a machine, held.
fn held(machine: &FakeMachine, pids: &[u32]) -> Vec<Arc<dyn Process>> {
    pids.iter().map(|&number| machine.open_process(pid(number)).unwrap()).collect()
}

fn survey(machine: &FakeMachine, processes: &[Arc<dyn Process>], block_pages: u64) -> SpreadSurvey {
    let selection = Selection::default();
    let view = |process| MemoryView { process, selection: &selection };
    let views: Vec<_> = processes.iter().map(view).collect();
    SpreadSurvey::new(machine, &views, block_pages * PAGE, &MoveControl::default()).unwrap()
}

/// Carries orders out, by one worker.
fn carried_out(
    machine: &FakeMachine,
    processes: &[Arc<dyn Process>],
    found: SpreadOrders,
) -> Account {
    let request = MoveRequest {
        orders: found.orders,
        selection: Selection::default(),
        jobs: Jobs::Fixed(1),
        cpus: Vec::new(),
        rate_bytes_per_s: None,
        stall_ns: None,
        split_huge: false,
    };
    migrate(machine, processes, &request, &MoveControl::default(), None).unwrap().account()
}

/// Returns the numbers of the named pages of each order, with its destination.
fn named(orders: &[MoveOrder]) -> Vec<(u32, Vec<u64>)> {
    let pages = |order: &MoveOrder| {
        order.pages.iter().flat_map(PageSet::iter).map(|at| at / PAGE).collect()
    };
    let to = |order: &MoveOrder| order.pairs.destinations().first().unwrap().0;
    orders.iter().map(|order| (to(order), pages(order))).collect()
}

/// Goal: half of the blocks of a mapping go, every other one, and the mover brings them there.
#[test]
fn every_other_block_goes() {
    let machine = FakeMachine::new(true);
    machine.spawn(pid(7), FakeProcess::with_pages(&[Page::on(NodeId(0)); 16]));
    let processes = held(&machine, &[7]);
    let found = survey(&machine, &processes, 4).orders(&equal(2), &BTreeMap::new());
    // Pages 16 to 31; blocks of four begin at 16, 20, 24 and 28.
    let expected = vec![(1, vec![20, 21, 22, 23, 28, 29, 30, 31])];
    assert_eq!(named(&found.orders[0]), expected);
    assert_eq!((found.stretches, found.uneven), (1, 1));
    assert_eq!(found.before, [(NodeId(0), 16)].into());
    assert_eq!(found.leaving, [(NodeId(0), 8)].into());
    assert_eq!(carried_out(&machine, &processes, found).moved, 8);
    assert_eq!(
        machine.process(pid(7)).unwrap().residency(),
        [(NodeId(0), 8), (NodeId(1), 8)].into()
    );
    let again = survey(&machine, &processes, 4).orders(&equal(2), &BTreeMap::new());
    assert_eq!((again.uneven, named(&again.orders[0])), (0, vec![]), "nothing is left to do");
}

/// Goal: a folio larger than a block goes or stays whole: four of 4 pages each, blocks of one.
#[test]
fn no_folio_is_split() {
    let machine = FakeMachine::new(true);
    let head = Page { folio_pages: 4, ..Page::on(NodeId(0)) };
    let tail = Page { folio_pages: 0, ..head };
    machine.spawn(pid(7), FakeProcess::with_pages(&[head, tail, tail, tail].repeat(4)));
    let processes = held(&machine, &[7]);
    let found = survey(&machine, &processes, 1).orders(&equal(2), &BTreeMap::new());
    let expected = vec![(1, vec![20, 21, 22, 23, 28, 29, 30, 31])];
    assert_eq!(named(&found.orders[0]), expected);
}

/// Goal: pages that are not in memory are neither counted nor named.
#[test]
fn holes_are_left_out() {
    let machine = FakeMachine::new(true);
    let mut pages = vec![Page::ABSENT; 12];
    [1, 2, 6, 9].into_iter().for_each(|page| pages[page] = Page::on(NodeId(0)));
    machine.spawn(pid(7), FakeProcess::with_pages(&pages));
    let processes = held(&machine, &[7]);
    let found = survey(&machine, &processes, 1).orders(&equal(2), &BTreeMap::new());
    assert_eq!(named(&found.orders[0]), vec![(1, vec![18, 25])]);
    assert_eq!(found.before, [(NodeId(0), 4)].into());
}

/// Returns a process that shows a part of a segment: pages from `first` on, from 64 KiB on.
fn shows(first: u64, pages: &[Page]) -> FakeProcess {
    let mut process = FakeProcess::with_pages(pages);
    let id = SegmentId { major: 0, minor: 1, inode: 4711 };
    process.mappings[0].segment = Some(SegmentPart { id, offset: first * PAGE, writable: true });
    process.mappings[0].shared = true;
    process
}

/// Goal: a segment that no process shows whole is evened as a whole, and each page of it belongs to
/// one process, where it is at other addresses.
#[test]
fn a_segment_is_evened_once() {
    let machine = FakeMachine::new(true);
    machine.spawn(pid(7), shows(0, &[Page::on(NodeId(0)); 8]));
    machine.spawn(pid(8), shows(4, &[Page::on(NodeId(0)); 8]));
    let processes = held(&machine, &[7, 8]);
    let found = survey(&machine, &processes, 1).orders(&equal(2), &BTreeMap::new());
    // 12 pages: 0 to 7 by the first process, 8 to 11 by the other, whose page 16 is page 4.
    assert_eq!(found.before, [(NodeId(0), 12)].into());
    assert_eq!(found.stretches, 1);
    assert_eq!(named(&found.orders[0]), vec![(1, vec![17, 19, 21, 23])]);
    assert_eq!(named(&found.orders[1]), vec![(1, vec![21, 23])]);
}

/// Goal: mappings are evened one by one: one that is on node 0 and one that is on node 1 both end
/// on both.
#[test]
fn each_mapping_is_evened_by_itself() {
    let machine = FakeMachine::new(true);
    let mut process =
        FakeProcess::with_pages(&[[Page::on(NodeId(0)); 4], [Page::on(NodeId(1)); 4]].concat());
    let whole = process.mappings.remove(0);
    let middle = (FIRST + 4) * PAGE;
    process.mappings.push(whole.part(Range::new(whole.range.start, middle)));
    process.mappings.push(whole.part(Range::new(middle, whole.range.end)));
    machine.spawn(pid(7), process);
    let processes = held(&machine, &[7]);
    let found = survey(&machine, &processes, 1).orders(&equal(2), &BTreeMap::new());
    assert_eq!(named(&found.orders[0]), vec![(0, vec![21, 23]), (1, vec![17, 19])]);
}

/// Goal: what one mapping has taken of a node's room is not there for the next; a huge page of a
/// pool needs none.
#[test]
fn room_is_taken_once() {
    let machine = FakeMachine::new(true);
    for number in [7, 8] {
        machine.spawn(pid(number), FakeProcess::with_pages(&[Page::on(NodeId(0)); 8]));
    }
    let processes = held(&machine, &[7, 8]);
    let room = [(NodeId(1), 5)].into();
    let moved = |found: &SpreadOrders| -> Vec<usize> {
        found.orders.iter().map(|orders| named(orders).iter().map(|it| it.1.len()).sum()).collect()
    };
    assert_eq!(moved(&survey(&machine, &processes, 1).orders(&equal(2), &room)), [4, 1]);
    let head = Page { folio_pages: 2, ..Page::on(NodeId(0)) };
    let tail = Page { folio_pages: 0, ..head };
    let mut huge = FakeProcess::with_pages(&[head, tail].repeat(4));
    huge.mappings[0].huge_page_bytes = Some(2 * PAGE);
    machine.spawn(pid(9), huge);
    let processes = held(&machine, &[9]);
    let found = survey(&machine, &processes, 1).orders(&equal(2), &[(NodeId(1), 0)].into());
    assert_eq!(named(&found.orders[0]), vec![(1, vec![18, 19, 22, 23])]);
}

/// Goal: a node that goes offline between the decision and the move takes nothing: what was to go
/// there stays, with its reason, and what was to go elsewhere goes.
#[test]
fn a_node_that_went_offline_takes_nothing() {
    let machine = FakeMachine::new(true);
    machine.spawn(pid(7), FakeProcess::with_pages(&[Page::on(NodeId(0)); 12]));
    let processes = held(&machine, &[7]);
    let found = survey(&machine, &processes, 1).orders(&equal(3), &BTreeMap::new());
    machine.set_offline(NodeId(2), true);
    let account = carried_out(&machine, &processes, found);
    assert_eq!((account.moved, account.skipped), (4, [(SkipReason::NotAllowed, 4)].into()));
    let stays = [(NodeId(0), 8), (NodeId(1), 4)].into();
    assert_eq!(machine.process(pid(7)).unwrap().residency(), stays);
}

/// Goal: a process that ended has no pages; the others are evened.
#[test]
fn a_process_that_ended() {
    let machine = FakeMachine::new(true);
    let lives = FakeProcess::with_pages(&[Page::on(NodeId(0)); 4]);
    let ends = FakeProcess { end_at_call: Some((1, Liveness::Exited)), ..lives.clone() };
    machine.spawn(pid(7), ends);
    machine.spawn(pid(8), lives);
    let processes = held(&machine, &[7, 8]);
    processes[0].move_pages(&MovePagesCall::new(false)).unwrap();
    let found = survey(&machine, &processes, 1).orders(&equal(2), &BTreeMap::new());
    let pages: BTreeSet<u64> = named(&found.orders[1]).into_iter().flat_map(|it| it.1).collect();
    assert!(found.orders[0].is_empty() && pages == [17, 19].into());
}

/// Goal: pages that a parent and its child share after a fork belong to the first; what each has
/// written since is its own. On the fake machine a frame has the number of its page.
#[test]
fn pages_shared_by_a_fork_count_once() {
    let machine = FakeMachine::new(true);
    let shared = Page { shared: true, ..Page::on(NodeId(0)) };
    let own = Page::on(NodeId(0));
    machine.spawn(pid(7), FakeProcess::with_pages(&[[shared; 4], [own; 4]].concat()));
    machine.spawn(pid(8), FakeProcess::with_pages(&[[shared; 4], [own; 4]].concat()));
    let processes = held(&machine, &[7, 8]);
    let found = survey(&machine, &processes, 1).orders(&equal(2), &BTreeMap::new());
    assert_eq!(found.before, [(NodeId(0), 12)].into());
    assert_eq!(named(&found.orders[0]), vec![(1, vec![17, 19, 21, 23])]);
    assert_eq!(named(&found.orders[1]), vec![(1, vec![21, 23])]);
}
