//! Moves of cached pages on the fake machine: pages that do not fit stay, and every page is
//! reported.

use std::cell::Cell;

use nodeward_machine::Machine;
use nodeward_machine::fake::{FakeMachine, FakeProcess};
use nodeward_model::{Account, NodeHeadroom, NodeId, NodePairs, Page, Pid, Range, SkipReason};
use nodeward_mover::{
    CacheMove, Jobs, MoveControl, MoveOrder, MoveReport, MoveRequest, ProcessPlan, Selection,
};
use nodeward_policy::cache_headroom::CacheHeadroom;
use proptest::prelude::*;

const PAGE_BYTES: u64 = 4096;
const FIRST: u64 = 16; // the number of the first page of a process
/// Less room than this is not used: the reserve of `policy::cache_headroom`, and one range that is
/// not halved.
const SLACK_PAGES: u64 = 4096;

fn pid() -> Pid {
    Pid::new(7).unwrap()
}

/// Requests pages in ranges of `range_pages` pages, as files mapped one after another would be.
fn request(pages: u64, range_pages: u64) -> MoveRequest {
    let address = |page: u64| (FIRST + page) * PAGE_BYTES;
    let starts = (0..pages).step_by(range_pages as usize);
    let range = |at| Range::new(address(at), address((at + range_pages).min(pages)));
    let ranges = starts.map(range).collect();
    let pairs = NodePairs::new(&"0".parse().unwrap(), &"1".parse().unwrap());
    MoveRequest {
        orders: vec![[MoveOrder { pairs, pages: None }].into()],
        selection: Selection { ranges, ..Selection::default() },
        jobs: Jobs::Fixed(2),
        cpus: Vec::new(),
        rate_bytes_per_s: None,
        stall_ns: None,
        split_huge: false,
    }
}

fn rooms(free_pages: u64, cold_pages: u64) -> CacheHeadroom {
    CacheHeadroom::new(
        [(NodeId(1), NodeHeadroom { free_pages, inactive_file_pages: cold_pages })].into(),
    )
}

/// Returns the plan of a move to that room, its report, and the pages on node 1 afterwards.
fn run(pages: &[Page], range_pages: u64, rooms: &CacheHeadroom) -> (ProcessPlan, MoveReport, u64) {
    let machine = FakeMachine::new(true);
    machine.spawn(pid(), FakeProcess::with_pages(pages));
    let processes = [machine.open_process(pid()).unwrap()];
    let live = MoveControl::default();
    let map_again = |_: &[Range]| {};
    let fitting = CacheMove {
        machine: &machine,
        processes: &processes,
        mapped_pages: pages.len() as u64,
        control: &live,
        map_again: &map_again,
    };
    let request = request(pages.len() as u64, range_pages);
    let mut plan = fitting.plan(&request, &mut rooms.clone()).unwrap();
    let report = fitting.migrate(&request, &mut rooms.clone()).unwrap();
    assert_eq!(live.examined_bytes(), live.total_bytes(), "progress comes to its end");
    let residency = machine.process(pid()).unwrap().residency();
    assert_eq!(report.processes[0].after, residency);
    (plan.processes.remove(0).1, report, residency.get(&NodeId(1)).copied().unwrap_or(0))
}

fn on(node: u32) -> Page {
    Page::on(NodeId(node))
}

#[test]
fn what_fits_moves_in_one_go() {
    let (plan, report, arrived) = run(&[on(0); 20_000], 20_000, &rooms(20_001, 0));
    assert_eq!(report.account(), Account { moved: 20_000, ..Account::default() });
    assert_eq!((plan.pages(), arrived), (20_000, 20_000));
}

/// Goal: 80 MiB to 36 MiB of room: no page more than fits, and nearly as many.
#[test]
fn what_does_not_fit_stays() {
    for range_pages in [20_000, 1000, 8] {
        let (plan, report, arrived) = run(&[on(0); 20_000], range_pages, &rooms(4000, 5000));
        assert!((9000 - SLACK_PAGES..9000).contains(&arrived), "{arrived} of {range_pages}");
        let skipped = [(SkipReason::NoMemory, 20_000 - arrived)].into();
        let expected = Account { moved: arrived, already_there: 0, skipped };
        assert_eq!(report.account(), expected);
        assert_eq!(plan.pages(), arrived, "as it was planned");
        assert_eq!(plan.account.skipped, expected.skipped);
        assert_eq!(report.processes[0].residue.appeared(), 0);
    }
}

/// Goal: a move that is stopped and has no time to verify takes no page for lost: it maps nothing
/// again, and does not look once more.
#[test]
fn a_stopped_move_does_not_look_for_lost_pages() {
    let machine = FakeMachine::new(true);
    // 50 us a page: a second for each look, of which the last may end 0.7 s after the stop.
    let slow = FakeProcess { read_ns: 50_000, ..FakeProcess::with_pages(&[on(0); 20_000]) };
    machine.spawn(pid(), slow);
    let processes = [machine.open_process(pid()).unwrap()];
    let (live, tries) = (MoveControl::default(), Cell::new(0));
    live.stop();
    let map_again = |_: &[Range]| tries.set(tries.get() + 1);
    let stopped = CacheMove {
        machine: &machine,
        processes: &processes,
        mapped_pages: 20_000,
        control: &live,
        map_again: &map_again,
    };
    let report = stopped.migrate(&request(20_000, 20_000), &mut rooms(20_001, 0)).unwrap();
    let told = &report.processes[0];
    assert!(!told.verified && told.after.is_empty());
    assert_eq!(tries.get(), 0, "what was not verified is not lost");
}

/// Goal: pages that the kernel unmapped before the first look are mapped again once they are
/// missed, and planned with the others; if they do not come back, the tries end.
#[test]
fn pages_unmapped_before_the_first_look_are_mapped_again() {
    for (comes_back, seen_pages) in [(true, 1000), (false, 400)] {
        let machine = FakeMachine::new(true);
        machine.spawn(
            pid(),
            FakeProcess::with_pages(&[vec![on(0); 400], vec![Page::ABSENT; 600]].concat()),
        );
        let processes = [machine.open_process(pid()).unwrap()];
        let (live, tries) = (MoveControl::default(), Cell::new(0));
        let map_again = |_: &[Range]| {
            tries.set(tries.get() + 1);
            if comes_back {
                machine.update_process(pid(), |fake_process| {
                    fake_process.pages = FakeProcess::with_pages(&[on(0); 1000]).pages;
                });
            }
        };
        let fitting = CacheMove {
            machine: &machine,
            processes: &processes,
            mapped_pages: 1000,
            control: &live,
            map_again: &map_again,
        };
        let plan = fitting.plan(&request(1000, 1000), &mut rooms(2000, 0)).unwrap();
        assert_eq!(plan.processes[0].1.seen(), seen_pages);
        assert_eq!(plan.processes[0].1.pages(), seen_pages);
        assert_eq!(tries.get(), if comes_back { 1 } else { 2 });
    }
}

/// Goal: half of a file came in an earlier move and is the cold part there now: the other half
/// stays.
#[test]
fn a_second_move_drives_out_nothing_of_the_first() {
    let pages = [[on(1); 10_000], [on(0); 10_000]].concat();
    let (_, report, arrived) = run(&pages, 20_000, &rooms(0, 10_000));
    assert_eq!(arrived, 10_000);
    let account = report.account();
    assert_eq!((account.moved, account.already_there), (0, 10_000));
    assert_eq!(account.skipped, [(SkipReason::NoMemory, 10_000)].into());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Goal: for any room and any layout, each page is reported once, and none moves without room.
    #[test]
    fn every_page_is_accounted_for(
        nodes in proptest::collection::vec(0..2_u32, 1..12_000),
        range_pages in 1..12_000_u64,
        free_pages in 0..12_000_u64,
    ) {
        let pages: Vec<Page> = nodes.iter().map(|&node| on(node)).collect();
        let there = nodes.iter().filter(|&&node| node == 1).count() as u64;
        let (plan, report, arrived) = run(&pages, range_pages, &rooms(free_pages, 0));
        let account = report.account();
        prop_assert_eq!(account.selected(), pages.len() as u64);
        prop_assert_eq!(account.already_there, there);
        prop_assert_eq!(arrived, there + account.moved);
        prop_assert!(account.moved <= free_pages);
        prop_assert_eq!(plan.pages(), account.moved);
    }
}
