//! Moves on the fake machine: every page is accounted for, whatever goes wrong.

use std::collections::BTreeMap;

use nodeward_machine::fake::{FakeMachine, FakeProcess};
use nodeward_machine::{Liveness, Machine};
use nodeward_model::{MappingKind, NodeId, NodePairs, Page, PageSet, Pid, Range, SkipReason};
use nodeward_mover::{
    Jobs, MoveControl, MoveOrder, MoveReport, MoveRequest, ProcessReport, Residue, Selection,
    StopReason, migrate, plan,
};
use proptest::prelude::*;

const FIRST: u64 = 16; // the number of the first page of a process

fn pid() -> Pid {
    Pid::new(7).unwrap()
}

fn order(from: &str, to: &str, pages: Option<PageSet>) -> MoveOrder {
    let nodes =
        |text: &str| text.split(',').map(|n| NodeId(n.parse().unwrap())).collect::<Vec<_>>();
    MoveOrder { pairs: NodePairs::from_lists(&nodes(from), &nodes(to)), pages }
}

fn request(from: &str, to: &str) -> MoveRequest {
    MoveRequest {
        orders: vec![[order(from, to, None)].into()],
        selection: Selection::default(),
        jobs: Jobs::Fixed(2),
        cpus: Vec::new(),
        rate_bytes_per_s: None,
        stall_ns: None,
        split_huge: false,
    }
}

/// Moves the pages of a process; returns the report and the process afterwards.
fn run(
    fake_process: FakeProcess,
    request: &MoveRequest,
    move_shared: bool,
) -> (MoveReport, FakeProcess) {
    let machine = FakeMachine::new(move_shared);
    machine.spawn(pid(), fake_process);
    let process = machine.open_process(pid()).unwrap();
    let report = migrate(&machine, &[process], request, &MoveControl::default(), None).unwrap();
    (report, machine.process(pid()).unwrap())
}

fn on(node: u32) -> Page {
    Page::on(NodeId(node))
}

fn skipped(report: &MoveReport) -> BTreeMap<SkipReason, u64> {
    report.account().skipped
}

#[test]
fn everything_moves_when_nothing_is_in_the_way() {
    let (report, fake_process) =
        run(FakeProcess::with_pages(&[on(0); 10_000]), &request("0", "1"), false);
    assert_eq!(report.account().moved, 10_000);
    assert_eq!(report.account().selected(), 10_000);
    assert_eq!(fake_process.residency(), [(NodeId(1), 10_000)].into());
    assert_eq!(report.processes[0].before, [(NodeId(0), 10_000)].into());
    assert_eq!(report.processes[0].after, [(NodeId(1), 10_000)].into());
    assert_eq!(report.processes[0].residue.appeared(), 0);
}

#[test]
fn pinned_pages_stay_and_their_neighbours_do_not() {
    let mut fake_process = FakeProcess::with_pages(&[on(0); 6000]);
    fake_process.pinned = [FIRST + 3, FIRST + 4097, FIRST + 5999].into();
    let (report, fake_process) = run(fake_process, &request("0", "1"), false);
    assert_eq!(report.account().moved, 5997);
    assert_eq!(skipped(&report), [(SkipReason::Pinned, 3)].into());
    assert_eq!(fake_process.residency()[&NodeId(0)], 3);
    assert_eq!(report.processes[0].residue.expected, 3);
    assert_eq!(report.processes[0].residue.seen, 3);
}

/// Goal: a page that the kernel may not take is behind a pinned one: the run ends there every time,
/// and only the last attempt, one by one, tells them apart.
#[test]
fn good_pages_behind_bad_ones_do_not_share_their_fate() {
    let shared = Page { shared: false, ..on(0) };
    let mut fake_process = FakeProcess::with_pages(&[shared; 64]);
    fake_process.pinned = [FIRST, FIRST + 1].into();
    fake_process.unmapped_on_call = [FIRST + 2].into();
    let (report, _) = run(fake_process, &request("0", "1"), false);
    assert_eq!(report.account().moved, 61);
    let expected = [(SkipReason::Pinned, 2), (SkipReason::NotPresent, 1)];
    assert_eq!(skipped(&report), expected.into());
}

/// Goal: pages that another thread is moving are neither in swap nor gone: they land, and are then
/// moved like any other.
#[test]
fn pages_in_flight_are_waited_for() {
    let mut fake_process = FakeProcess::with_pages(&[on(0); 100]);
    let there = |pages: std::ops::Range<u64>, node| pages.map(move |n| (FIRST + n, NodeId(node)));
    fake_process.in_flight = there(10..20, 0).chain(there(50..53, 1)).collect();
    let (report, fake_process) = run(fake_process, &request("0", "1"), false);
    let account = report.account();
    assert_eq!((account.moved, account.already_there, account.skipped_total()), (97, 3, 0));
    assert_eq!(fake_process.residency(), [(NodeId(1), 100)].into());
}

/// Goal: the thread that moves pages may be preempted meanwhile: pages that are in flight for 0.2 s
/// are waited for, both at the first look and afterwards. Pages in flight for longer are reported
/// as held.
#[test]
fn slow_flights_are_waited_for() {
    let flights: BTreeMap<_, _> = (FIRST + 10..FIRST + 20).map(|page| (page, NodeId(0))).collect();
    let first =
        FakeProcess { in_flight: flights.clone(), ..FakeProcess::with_pages(&[on(0); 100]) };
    let later =
        FakeProcess { in_flight_on_call: flights, ..FakeProcess::with_pages(&[on(0); 100]) };
    for (fake_process, flight_ms, held) in
        [(&first, 200, 0), (&later, 200, 0), (&first, 3000, 10), (&later, 3000, 10)]
    {
        let fake_process =
            FakeProcess { release_after_ns: Some(flight_ms * 1_000_000), ..fake_process.clone() };
        let account = run(fake_process, &request("0", "1"), false).0.account();
        assert_eq!((account.moved, account.skipped_for(SkipReason::Pinned)), (100 - held, held));
    }
}

/// Goal: a holder of pages for 15 ms does not keep them from moving: attempts at a unit end after
/// 11 ms (1 and 10), and when all units are done there are as many again.
#[test]
fn passing_holders_are_waited_for() {
    let held = (FIRST + 5..FIRST + 15).collect();
    let fake_process = FakeProcess { pinned: held, ..FakeProcess::with_pages(&[on(0); 100]) };
    let fake_process = FakeProcess { release_after_ns: Some(15_000_000), ..fake_process };
    let (report, fake_process) = run(fake_process, &request("0", "1"), false);
    assert_eq!((report.account().moved, report.account().skipped_total()), (100, 0));
    assert_eq!(fake_process.residency(), [(NodeId(1), 100)].into());
}

/// Hugetlb pages of 16 base pages in a mapping that processes share.
fn hugetlb(pages: usize) -> FakeProcess {
    let head = Page { folio_pages: 16, ..on(0) };
    let rest = [Page { folio_pages: 0, ..on(0) }; 15];
    let one = [&[head], &rest[..]].concat();
    let mut fake_process = FakeProcess::with_pages(&one.repeat(pages));
    for mapping in &mut fake_process.mappings {
        mapping.huge_page_bytes = Some(16 * 4096);
        (mapping.shared, mapping.kind) = (true, MappingKind::Huge);
    }
    fake_process
}

/// Goal: a huge page in use is reported as held as long as the destination has a free one; where it
/// has none, that is reported.
#[test]
fn huge_pages_stay_for_the_reason_that_is_so() {
    for (free, reason) in [(10, SkipReason::Pinned), (3, SkipReason::NoHugePage)] {
        let fake_process =
            FakeProcess { free_pages: [(NodeId(1), free * 16)].into(), ..hugetlb(4) };
        let fake_process = FakeProcess { pinned: [FIRST + 16].into(), ..fake_process };
        let report = run(fake_process, &request("0", "1"), true).0;
        assert_eq!(report.account().moved, 3 * 16, "{free} free");
        assert_eq!(skipped(&report), [(reason, 16)].into(), "{free} free");
        assert_eq!(report.processes[0].residue.seen, 16);
    }
}

/// Goal: pages that were on no node at every look are counted separately, so that the counts before
/// and after agree.
#[test]
fn pages_in_flight_for_ever_count_before() {
    let flights = (FIRST + 10..FIRST + 20).map(|page| (page, NodeId(0))).collect();
    let fake_process = FakeProcess { in_flight: flights, ..FakeProcess::with_pages(&[on(0); 100]) };
    let fake_process = FakeProcess { release_after_ns: Some(3_000_000_000), ..fake_process };
    let report = run(fake_process, &request("0", "1"), false).0;
    let process = &report.processes[0];
    assert_eq!(process.before_in_flight, 10);
    let before: u64 = process.before.values().sum();
    assert_eq!(before + process.before_in_flight, process.account.selected());
}

/// Goal: the report gives the stall budget that would have been enough, and it is.
#[test]
fn the_budget_that_would_do_does() {
    let huge = huge_pages();
    let mut request = request("0", "1");
    // A folio takes 1 us on this machine, and 1 ns a page: 512 ns, more than twice 250.
    request.stall_ns = Some(250);
    let report = run(FakeProcess::with_pages(&huge), &request, false).0;
    // The first is tried, and its time is measured.
    assert_eq!(skipped(&report), [(SkipReason::StallBudget, 3 * 512)].into());
    assert_eq!(report.stall_needed_ns, Some(640), "512 ns and a quarter");
    request.stall_ns = report.stall_needed_ns;
    let report = run(FakeProcess::with_pages(&huge), &request, false).0;
    assert_eq!((report.account().moved, report.stall_needed_ns), (4 * 512, None));
}

/// Returns four folios of 512 pages on node 0.
fn huge_pages() -> Vec<Page> {
    let head = Page { folio_pages: 512, ..on(0) };
    let rest = [Page { folio_pages: 0, ..on(0) }; 511];
    [&[head], &rest[..]].concat().repeat(4)
}

/// Goal: a folio that takes no more than twice the stall budget moves, alone, and is counted.
#[test]
fn a_folio_within_twice_the_budget_moves_alone() {
    // A folio takes 1 us, as one call, and is judged by 1 ns a page: 512 ns.
    for (stall_ns, over) in [(300, 4 * 512), (999, 4 * 512), (1000, 0)] {
        let request = MoveRequest { stall_ns: Some(stall_ns), ..request("0", "1") };
        let report = run(FakeProcess::with_pages(&huge_pages()), &request, false).0;
        assert_eq!((report.account().moved, report.over_stall_pages), (4 * 512, over));
        assert_eq!((report.stall_needed_ns, report.split_folios), (None, 0));
    }
}

/// Goal: on request folios that take longer than the budget are split, except the first, whose time
/// is measured, and one that somebody holds; of that one the account tells the budget.
#[test]
fn folios_are_split_to_keep_the_budget() {
    let stall_ns = Some(250);
    let request =
        MoveRequest { stall_ns, split_huge: true, jobs: Jobs::Fixed(1), ..request("0", "1") };
    let split = |fake_process| {
        let (report, after) = run(fake_process, &request, false);
        let there = after.residency().get(&NodeId(1)).copied().unwrap_or(0);
        assert_eq!(report.account().moved, there);
        let whole = after.pages.values().filter(|page| page.folio_pages == 512).count();
        assert_eq!(whole as u64, 4 - report.split_folios);
        (report.account(), report.split_folios)
    };
    let (account, folios) = split(FakeProcess::with_pages(&huge_pages()));
    assert_eq!((account.moved, account.skipped_total(), folios), (4 * 512, 0, 3));
    let held = FakeProcess {
        pinned: [FIRST + 2 * 512 + 7].into(),
        ..FakeProcess::with_pages(&huge_pages())
    };
    let (account, folios) = split(held);
    assert_eq!((account.moved, folios), (3 * 512, 2));
    assert_eq!(account.skipped, [(SkipReason::StallBudget, 512)].into());
}

/// Goal: pages that another worker of the same move holds, for another process that maps them too,
/// are waited for longer than pages held by others.
#[test]
fn company_is_waited_for() {
    let pids = [7, 8].map(|number| Pid::new(number).unwrap());
    for (processes, move_shared, moved) in [(2, true, 100), (1, true, 90), (2, false, 90)] {
        let machine = FakeMachine::new(move_shared);
        let held = (FIRST + 5..FIRST + 15).collect();
        let fake_process = FakeProcess { pinned: held, ..FakeProcess::with_pages(&[on(0); 100]) };
        machine.spawn(pids[0], FakeProcess { release_after_ns: Some(60_000_000), ..fake_process });
        machine.spawn(pids[1], FakeProcess::with_pages(&[]));
        let processes: Vec<_> =
            pids[..processes].iter().map(|&pid| machine.open_process(pid).unwrap()).collect();
        let mut request = request("0", "1");
        request.orders = vec![request.orders[0].clone(); processes.len()];
        request.selection.move_shared = move_shared;
        let report =
            migrate(&machine, &processes, &request, &MoveControl::default(), None).unwrap();
        assert_eq!(report.processes[0].account.moved, moved);
    }
}

#[test]
fn a_full_destination_takes_what_it_can() {
    let mut fake_process = FakeProcess::with_pages(&[on(0); 1000]);
    fake_process.free_pages = [(NodeId(1), 300)].into();
    let (report, fake_process) = run(fake_process, &request("0", "1"), false);
    assert_eq!(report.account().moved, 300);
    assert_eq!(skipped(&report), [(SkipReason::NoMemory, 700)].into());
    assert_eq!(fake_process.residency(), [(NodeId(0), 700), (NodeId(1), 300)].into());
}

#[test]
fn a_forbidden_destination_is_told() {
    let mut fake_process = FakeProcess::with_pages(&[on(0); 100]);
    fake_process.forbidden_nodes = [NodeId(1)].into();
    let (report, _) = run(fake_process, &request("0", "1"), false);
    assert_eq!(skipped(&report), [(SkipReason::NotAllowed, 100)].into());
}

/// Goal: pages for an allowed node go there, though the move names a forbidden one too.
#[test]
fn a_forbidden_destination_is_no_harm_to_others() {
    let mut fake_process = FakeProcess::with_pages(&[[on(0); 50], [on(1); 50]].concat());
    fake_process.forbidden_nodes = [NodeId(3)].into();
    let (report, fake_process) = run(fake_process, &request("0,1", "2,3"), false);
    assert_eq!(report.account().moved, 50);
    assert_eq!(skipped(&report), [(SkipReason::NotAllowed, 50)].into());
    assert_eq!(fake_process.residency(), [(NodeId(1), 50), (NodeId(2), 50)].into());
}

#[test]
fn shared_pages_move_only_with_the_privilege() {
    let shared = Page { shared: true, ..on(0) };
    let pages: Vec<Page> = [vec![shared; 10], vec![on(0); 10]].concat();
    let (report, _) = run(FakeProcess::with_pages(&pages), &request("0", "1"), false);
    assert_eq!(skipped(&report), [(SkipReason::Shared, 10)].into());
    let (report, _) = run(FakeProcess::with_pages(&pages), &request("0", "1"), true);
    assert_eq!(report.account().moved, 20);
}

#[test]
fn a_process_that_ends_half_way_is_gone_not_lost() {
    for life in [Liveness::Exited, Liveness::Replaced] {
        let mut fake_process = FakeProcess::with_pages(&[on(0); 80_000]);
        fake_process.end_at_call = Some((2, life));
        let (report, _) =
            run(fake_process, &MoveRequest { jobs: Jobs::Fixed(1), ..request("0", "1") }, false);
        // Units of 32,768 pages at most, in whole page tables from the first boundary on: 496 + 63
        // x 512 = 32,752, then 64 x 512. The first arrived, the second was under way at the end and
        // its outcome is not known, the third was never examined.
        assert_eq!(report.account().moved, 32_752);
        assert_eq!(skipped(&report), [(SkipReason::Gone, 32_768)].into());
        assert_eq!(report.processes[0].life, life);
    }
}

#[test]
fn a_move_that_is_stopped_accounts_for_the_rest() {
    let machine = FakeMachine::new(false);
    machine.spawn(pid(), FakeProcess::with_pages(&[on(0); 5000]));
    let process = machine.open_process(pid()).unwrap();
    let live = MoveControl::default();
    live.stop();
    let report = migrate(&machine, &[process], &request("0", "1"), &live, None).unwrap();
    assert_eq!(report.stopped, Some(StopReason::Requested));
    assert_eq!(skipped(&report), [(SkipReason::Interrupted, 5000)].into());
}

/// Goal: of several processes those whose turn had not come are told as not looked at: 300 pages,
/// and named pages of them as interrupted, and not as pages that are not there.
#[test]
fn processes_whose_turn_had_not_come_are_told() {
    let machine = FakeMachine::new(false);
    let others = [8, 9].map(|pid| Pid::new(pid).unwrap());
    machine.spawn(pid(), FakeProcess::with_pages(&[on(0); 100]));
    others.iter().for_each(|&pid| machine.spawn(pid, FakeProcess::with_pages(&[on(0); 300])));
    let processes = [pid(), others[0], others[1]].map(|pid| machine.open_process(pid).unwrap());
    let mut pages = PageSet::new(4096);
    pages.insert_range(Range::new(16 * 4096, 20 * 4096));
    let all = request("0", "1");
    let named = [MoveOrder { pages: Some(pages), ..all.orders[0][0].clone() }].into();
    let orders = vec![all.orders[0].clone(), all.orders[0].clone(), named];
    let live = MoveControl::default();
    live.stop();
    let report =
        migrate(&machine, &processes, &MoveRequest { orders, ..all }, &live, None).unwrap();
    let told = |process: &ProcessReport| {
        (process.account.skipped_for(SkipReason::Interrupted), process.unexamined_bytes / 4096)
    };
    assert_eq!(
        report.processes.iter().map(told).collect::<Vec<_>>(),
        [(100, 0), (0, 300), (4, 300)]
    );
    assert_eq!(report.account().selected(), 104);
}

/// Goal: a move that is stopped ends within a second, however long looking at the rest would take,
/// and tells what it has not looked at and that it has not verified.
#[test]
fn a_move_that_is_stopped_ends_soon() {
    let machine = FakeMachine::new(false);
    // 10 us a page: two seconds to look at all pages, and two more to verify.
    let slow = FakeProcess { read_ns: 10_000, ..FakeProcess::with_pages(&vec![on(0); 200_000]) };
    machine.spawn(pid(), slow);
    let process = machine.open_process(pid()).unwrap();
    let live = MoveControl::default();
    live.stop();
    let report = migrate(&machine, &[process], &request("0", "1"), &live, None).unwrap();
    assert!(machine.now_ns() < 1_500_000_000, "{} ns, and units of 0.3 s", machine.now_ns());
    let told = &report.processes[0];
    assert!(report.stopped.is_some() && !told.verified && !report.is_verified());
    assert!(told.account.selected() > 0 && told.unexamined_bytes > 0);
    assert_eq!(told.account.selected() * 4096 + told.unexamined_bytes, 200_000 * 4096);
    assert_eq!(told.account.selected(), told.account.skipped_for(SkipReason::Interrupted));
    assert!(told.after.is_empty() && told.residue == Residue::default());
}

/// Goal: the pages held at once never exceed the quantum that the stall budget allows.
#[test]
fn a_stall_budget_bounds_what_is_held() {
    // On the fake machine an entry costs 1 us, so the guess of 4 us falls slowly from the first
    // call on: runs begin at 100 us / 4 / 4 us = 6 pages and never pass 100 us / 4 / 1 us = 25.
    let budget = MoveRequest { stall_ns: Some(100_000), ..request("0", "1") };
    let (report, fake_process) = run(FakeProcess::with_pages(&[on(0); 5000]), &budget, false);
    assert_eq!(report.account().moved, 5000);
    assert!((4..=25).contains(&fake_process.run_pages_max), "{}", fake_process.run_pages_max);
    let (_, fake_process) = run(FakeProcess::with_pages(&[on(0); 5000]), &request("0", "1"), false);
    assert!(fake_process.run_pages_max > 1000, "without a budget runs are as long as they can be");
}

#[test]
fn a_huge_page_beyond_the_budget_is_skipped_after_one_was_measured() {
    // On the fake machine a call costs 1 us per entry, so a folio of 512 pages takes 1 us: always
    // within.
    let huge = |node| {
        let mut pages = vec![Page { folio_pages: 0, ..on(node) }; 512];
        pages[0].folio_pages = 512;
        pages
    };
    let pages: Vec<Page> = (0..4).flat_map(|_| huge(0)).collect();
    let budget = MoveRequest { stall_ns: Some(100_000), ..request("0", "1") };
    let (report, _) = run(FakeProcess::with_pages(&pages), &budget, false);
    assert_eq!(report.account().moved, 2048);
}

#[test]
fn the_rate_is_kept() {
    let machine = FakeMachine::new(false);
    machine.spawn(pid(), FakeProcess::with_pages(&[on(0); 25_600])); // 100 MiB
    let process = machine.open_process(pid()).unwrap();
    let slow = MoveRequest { rate_bytes_per_s: Some(50 << 20), ..request("0", "1") };
    let report = migrate(&machine, &[process], &slow, &MoveControl::default(), None).unwrap();
    // 100 MiB at 50 MiB/s are 2 s; the last stretch of 50 ms need not be waited out.
    let ms = report.moving_ns / 1_000_000;
    assert!((1950..2200).contains(&ms), "{ms} ms of the machine's own time");
}

#[test]
fn a_plan_says_what_a_move_would_do_and_does_nothing() {
    let shared = Page { shared: true, ..on(0) };
    let fake_process = FakeProcess::with_pages(&[on(0), on(1), shared, on(2)]);
    let machine = FakeMachine::new(false);
    machine.spawn(pid(), fake_process);
    let process = machine.open_process(pid()).unwrap();
    let report = plan(&machine, &[process], &request("0", "1"), &MoveControl::default()).unwrap();
    let (_, planned) = &report.processes[0];
    assert_eq!(planned.moves, [((NodeId(0), NodeId(1)), 1)].into());
    assert_eq!(planned.account.skipped, [(SkipReason::Shared, 1)].into());
    assert_eq!(planned.account.already_there, 1);
    assert_eq!(machine.process(pid()).unwrap().calls, 0);
}

/// Returns pages by their offset from the first.
fn named(positions: impl IntoIterator<Item = u64>) -> PageSet {
    let mut set = PageSet::new(4096);
    positions.into_iter().for_each(|page| _ = set.insert((FIRST + page) * 4096));
    set
}

/// Goal: only named pages move; named pages that do not exist are reported.
#[test]
fn named_pages_move_and_no_others() {
    let fake_process = FakeProcess::with_pages(&[[on(0); 3000], [on(1); 3000]].concat());
    // 500 on node 0, 500 on node 1, and 7 behind the end of the only mapping.
    let pages = named((0..6000).step_by(6).chain(10_000..10_007));
    let orders = vec![[order("0", "1", Some(pages))].into()];
    let (report, after) = run(fake_process, &MoveRequest { orders, ..request("0", "1") }, false);
    let account = report.account();
    assert_eq!((account.moved, account.already_there), (500, 500));
    assert_eq!(account.skipped, [(SkipReason::NotPresent, 7)].into());
    assert_eq!(after.residency(), [(NodeId(0), 2500), (NodeId(1), 3500)].into());
    assert_eq!(report.processes[0].before, [(NodeId(0), 500), (NodeId(1), 500)].into());
    assert_eq!(report.processes[0].after, [(NodeId(1), 1000)].into());
    assert_eq!(report.processes[0].residue.appeared(), 0);
}

/// Goal: two lists with a destination each are one move.
#[test]
fn each_list_has_its_own_destination() {
    let fake_process = FakeProcess::with_pages(&[[on(0); 1000], [on(1); 1000]].concat());
    let orders = [
        order("0,1", "1", Some(named(0..100))),
        order("0,1", "0", Some(named((1000..1050).chain(500..510)))),
    ];
    let orders = vec![orders.into()];
    let (report, after) = run(fake_process, &MoveRequest { orders, ..request("0", "1") }, false);
    assert_eq!((report.account().moved, report.account().already_there), (150, 10));
    assert_eq!(after.residency(), [(NodeId(0), 950), (NodeId(1), 1050)].into());
    assert_eq!(report.processes[0].residue.appeared(), 0);
}

/// Generates layouts with folios of several sizes and everything that can be wrong with a page.
fn any_process() -> impl Strategy<Value = FakeProcess> {
    let folio = (0..3_u32, prop_oneof![4 => Just(1_u32), 1 => Just(8)], any::<bool>(), 0..20_u8);
    (proptest::collection::vec(folio, 1..200), 0..2000_u64).prop_map(|(folios, free)| {
        let mut pages = Vec::new();
        let (mut pinned, mut vanishing) = (Vec::new(), Vec::new());
        for (node, size, shared, trouble) in folios {
            let number = FIRST + pages.len() as u64;
            match trouble {
                0 => pinned.push(number),
                1 => vanishing.extend(number..number + u64::from(size)),
                _ => {}
            }
            let page = Page { shared: shared && trouble > 15, ..on(node) };
            pages.extend(
                (0..size).map(|i| Page { folio_pages: if i == 0 { size } else { 0 }, ..page }),
            );
        }
        FakeProcess {
            pinned: pinned.into_iter().collect(),
            unmapped_on_call: vanishing.into_iter().collect(),
            free_pages: [(NodeId(1), free)].into(),
            ..FakeProcess::with_pages(&pages)
        }
    })
}

proptest! {
    /// Goal: for any layout each page that was on the source is moved or skipped, the pages that
    /// moved according to the account are those that arrived, and those that stayed are there.
    #[test]
    fn accounts_are_exact(fake_process in any_process(), move_shared: bool, paced: bool) {
        let before = fake_process.residency();
        let count =
            |map: &BTreeMap<NodeId, u64>, node| map.get(&NodeId(node)).copied().unwrap_or(0);
        let stall_ns = paced.then_some(100_000);
        let request = MoveRequest { stall_ns, jobs: Jobs::Auto, ..request("0", "1") };
        let (report, fake_process) = run(fake_process, &request, move_shared);
        let account = report.account();
        prop_assert_eq!(account.selected(), count(&before, 0) + count(&before, 1));
        prop_assert_eq!(account.already_there, count(&before, 1));
        let gone = account.skipped_for(SkipReason::NotPresent);
        let left = account.skipped_total() - gone;
        prop_assert_eq!(count(&fake_process.residency(), 0), left);
        prop_assert_eq!(report.processes[0].residue.appeared(), 0);
    }
}
