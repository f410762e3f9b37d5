//! Nodes that exchange pages on the fake machine, with little room or none.

use std::collections::BTreeMap;

use nodeward_machine::Machine;
use nodeward_machine::fake::{FakeMachine, FakeProcess};
use nodeward_model::{NodeId, NodePairs, Page, Pid, SkipReason};
use nodeward_mover::{Jobs, MoveControl, MoveOrder, MoveReport, MoveRequest, Selection, migrate};
use proptest::prelude::*;

fn on(node: u32) -> Page {
    Page::on(NodeId(node))
}

/// Returns a process on a machine with `free` pages free on nodes 0 and 1.
fn fake_process(pages: &[Page], free: u64) -> FakeProcess {
    FakeProcess {
        free_pages: [(NodeId(0), free), (NodeId(1), free)].into(),
        ..FakeProcess::with_pages(pages)
    }
}

/// Moves pages in a ring: from each node to the next, from the last to the first.
fn rotate(fake_process: FakeProcess, nodes: &[u32]) -> (MoveReport, FakeProcess) {
    let from: Vec<NodeId> = nodes.iter().map(|&node| NodeId(node)).collect();
    let mut to = from.clone();
    to.rotate_left(1);
    let order = MoveOrder { pairs: NodePairs::from_lists(&from, &to), pages: None };
    let request = MoveRequest {
        orders: vec![[order].into()],
        selection: Selection::default(),
        jobs: Jobs::Fixed(2),
        cpus: Vec::new(),
        rate_bytes_per_s: None,
        stall_ns: None,
        split_huge: false,
    };
    let machine = FakeMachine::new(false);
    let pid = Pid::new(7).unwrap();
    machine.spawn(pid, fake_process);
    let process = machine.open_process(pid).unwrap();
    let report = migrate(&machine, &[process], &request, &MoveControl::default(), None).unwrap();
    (report, machine.process(pid).unwrap())
}

/// Goal: two nodes exchange their pages though only a quarter of them would fit, and no more room
/// is used than there was. Also where pages of both are interleaved.
#[test]
fn two_full_nodes_change_places() {
    let halves = [vec![on(0); 4000], vec![on(1); 4000]].concat();
    let mixed: Vec<Page> = (0..8000).map(|page| on(page % 2)).collect();
    for pages in [halves, mixed] {
        let (report, after) = rotate(fake_process(&pages, 1000), &[0, 1]);
        assert_eq!((report.account().moved, report.account().selected()), (8000, 8000));
        for (number, page) in after.pages.values().enumerate() {
            assert_ne!(page.location, pages[number].location, "page {number}");
        }
        assert_eq!(report.processes[0].before, [(NodeId(0), 4000), (NodeId(1), 4000)].into());
        assert_eq!(report.processes[0].after, report.processes[0].before);
        assert_eq!(report.processes[0].residue.appeared(), 0);
        // Two workers, 1000 pages: parcels of 1000 / 8 = 125 pages, of which each may have one out.
        let least = after.free_pages_min.values().min().copied().unwrap();
        assert!(least >= 1000 - 2 * 125, "{least} pages free");
    }
}

/// Goal: a node that gives more than it gets stops exactly when the other one is full.
#[test]
fn an_uneven_exchange_uses_the_room_there_is() {
    let pages = [vec![on(0); 1000], vec![on(1); 300]].concat();
    let (report, after) = rotate(fake_process(&pages, 192), &[0, 1]);
    // 300 there and back in parcels of 64 pages (256 KiB), and 192 more to where room is left.
    let moved = report.account().moved;
    assert!((600 + 192 - 63..=600 + 192).contains(&moved), "{moved}");
    assert_eq!(report.account().skipped, [(SkipReason::NoMemory, 1300 - moved)].into());
    assert_eq!(after.residency()[&NodeId(1)], moved - 300);
    assert_eq!(report.processes[0].residue.appeared(), 0);
}

/// Goal: without a single free page nothing moves, and the exchange ends at once.
#[test]
fn nothing_can_be_borrowed_from_nobody() {
    let pages = [vec![on(0); 500], vec![on(1); 500]].concat();
    let (report, after) = rotate(fake_process(&pages, 0), &[0, 1]);
    assert_eq!(report.account().skipped, [(SkipReason::NoMemory, 1000)].into());
    assert!(after.calls <= 16, "{} calls", after.calls);
}

/// Goal: a chain and a ring of three are exchanges too.
#[test]
fn three_nodes_pass_pages_round() {
    let pages: Vec<Page> = (0..3000).map(|page| on(page / 1000)).collect();
    let mut fake_process = fake_process(&pages, 100);
    fake_process.free_pages.insert(NodeId(2), 100);
    let (report, after) = rotate(fake_process, &[0, 1, 2]);
    assert_eq!(report.account().moved, 3000);
    for (number, page) in after.pages.values().enumerate() {
        assert_eq!(*page, on((number as u32 / 1000 + 1) % 3), "page {number}");
    }
}

proptest! {
    /// Goal: for any layout and any room, each page is accounted for once, and no page that moved
    /// is moved back.
    #[test]
    fn accounts_of_exchanges_are_exact(
        nodes in proptest::collection::vec(0..3_u32, 1..1500),
        free in 0..300_u64,
        pinned in proptest::collection::btree_set(16..1516_u64, 0..5),
    ) {
        let pages: Vec<Page> = nodes.iter().map(|&node| on(node)).collect();
        let before = FakeProcess { pinned: pinned.clone(), ..fake_process(&pages, free) };
        let (report, after) = rotate(before, &[0, 1]);
        let account = report.account();
        let concerned = nodes.iter().filter(|&&node| node < 2).count() as u64;
        prop_assert_eq!(account.selected(), concerned);
        let pairs = after.pages.values().zip(&pages);
            let changed = pairs.filter(|(a, b)| a.location != b.location).count();
        prop_assert_eq!(account.moved, changed as u64);
        let expected: BTreeMap<NodeId, u64> = after.residency();
        prop_assert_eq!(&report.processes[0].after, &expected);
        prop_assert_eq!(report.processes[0].residue.appeared(), 0);
    }
}
