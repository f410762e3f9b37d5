//! Segments that several processes map: looked at, decided about and moved as one.

use std::sync::Arc;

use nodeward_balancer::{BalanceSettings, RoundReport, SegmentRow};
use nodeward_machine::fake::{FakeMachine, FakeProcess};
use nodeward_model::{
    Access, AccessKind, AccessSample, Accessor, CpuId, NodeId, Page, ProcessFilter, SegmentId,
};
use nodeward_policy::placement::Reason;

use crate::stage::*;

const ID: SegmentId = SegmentId { major: 0, minor: 1, inode: 7 };
/// The first page at which a process maps the segment, as a page number; each process maps it
/// somewhere else.
const FIRST: u64 = 1 << 20;
/// A name that would clear a terminal.
const NAME: &str = "/dev/shm/\x1b[2Jdb";

/// A busy process on a CPU, with 64 pages of its own there, that may run on these CPUs and touched
/// these pages of a segment of 16 MiB on node 0.
fn backend(number: u32, cpu: u32, may: &str, touched: std::ops::Range<u64>) -> FakeProcess {
    let mut process = fake_process(if cpu < 4 { [64, 0] } else { [0, 64] }, cpu, may);
    let page = |page| if touched.contains(&page) { Page::on(NodeId(0)) } else { Page::ABSENT };
    let pages: Vec<Page> = (0..PAGES).map(page).collect();
    process.map_segment(ID, NAME, first(number), &pages);
    process
}

fn first(number: u32) -> u64 {
    FIRST * u64::from(number)
}

/// Pages of the segment by node, in the table of a process.
fn seen_by(fake: &FakeMachine, number: u32) -> [u64; 2] {
    let process = fake.process(pid(number)).unwrap();
    let pages = process.pages.range(first(number)..first(number) + PAGES);
    let on = |node: u32| pages.clone().filter(move |(_, page)| page.node() == Some(NodeId(node)));
    [0, 1].map(|node| on(node).count() as u64)
}

fn segment(report: &RoundReport) -> &SegmentRow {
    let [row] = &report.segments[..] else { panic!("one segment: {:?}", report.segments) };
    row
}

fn segment_pages(reports: &[RoundReport]) -> u64 {
    let rows = reports.iter().flat_map(|report| &report.segments);
    rows.map(|row| row.done.pages_moved).sum()
}

/// A machine whose processes 1 and 2 may run on node 1 only and touched 3000 pages each of a
/// segment on node 0, 1904 of which both touched.
fn two_backends(may_move: bool) -> Arc<FakeMachine> {
    let fake = Arc::new(FakeMachine::with_topology(may_move, "2n 4c 1t 4GiB"));
    fake.spawn(pid(1), backend(1, 4, "4-7", 0..3000));
    fake.spawn(pid(2), backend(2, 5, "4-7", 1096..4096));
    fake
}

/// Goal: all of a segment goes to the home of its users, also the pages that only one of them has
/// in its page table, and each page once; neither process is charged for it.
#[test]
fn a_segment_goes_home_as_one() {
    let fake = two_backends(true);
    let mut balancer = balancer(&fake, BalanceSettings::default());
    let reports = rounds(&fake, &mut balancer, 12);
    assert_eq!((seen_by(&fake, 1), seen_by(&fake, 2)), ([0, 3000], [0, 3000]));
    assert_eq!((segment_pages(&reports), moved(&reports)), (PAGES, PAGES));
    let last = reports.last().unwrap();
    assert_eq!(row(last, 1).decision.numbers.pages, 64);
    assert_eq!(row(last, 2).segments, [ID]);
    let told = segment(last);
    assert_eq!((told.decision.reason, told.decision.users, told.mappers), (Reason::AllHome, 2, 2));
    assert_eq!(told.residency, [(NodeId(1), PAGES)].into());
    let moving = reports.iter().find(|report| segment_pages(std::slice::from_ref(report)) > 0);
    assert_eq!(segment(moving.unwrap()).decision.reason, Reason::Pays);
}

/// Goal: with users at home on both nodes none of it moves, whatever each of them touched, and what
/// is a process's own still does.
#[test]
fn a_segment_between_its_users_stays() {
    let fake = fake();
    fake.spawn(pid(1), backend(1, 0, "0-3", 0..2000));
    fake.spawn(pid(2), backend(2, 4, "4-7", 2000..4096));
    fake.update_process(pid(2), |process| {
        process.pages.iter_mut().take(64).for_each(|(_, page)| *page = Page::on(NodeId(0)));
    });
    let mut balancer = balancer(&fake, BalanceSettings::default());
    let reports = rounds(&fake, &mut balancer, 80);
    assert_eq!((seen_by(&fake, 1), seen_by(&fake, 2)), ([2000, 0], [2096, 0]));
    assert_eq!(moved(&reports), 64);
    assert_eq!(segment(reports.last().unwrap()).decision.reason, Reason::UsersApart);
}

/// Gives each of these processes samples of 1 ms of the quarter of the segment that it uses.
fn sample(fake: &FakeMachine, uses: &[(u32, u32, u64)]) {
    let samples = uses.iter().flat_map(|&(number, cpu, quarter)| {
        (0..400).map(move |draw: u64| {
            let page = first(number) + quarter * PAGES / 4 + draw * 167 % (PAGES / 4);
            let accessor = Accessor::Cpu(CpuId(cpu));
            let access = Access { address: page * 4096 + 8, accessor, count: 1 };
            AccessSample { pid: pid(number), tid: Some(1), kind: AccessKind::Unknown, access }
        })
    });
    fake.add_accesses(&samples.collect::<Vec<_>>(), 1_000_000);
}

/// Goal: with users at home on both nodes, the quarter that the user on the other node uses goes
/// there, although each user has the segment at other addresses, and no page moves twice. When the
/// user ends by whose addresses accesses were counted, they are counted by another's.
#[test]
fn ranges_of_a_segment_go_to_their_users() {
    let fake = fake();
    fake.spawn(pid(1), backend(1, 0, "0-3", 0..PAGES));
    fake.spawn(pid(2), backend(2, 4, "4-7", 0..PAGES));
    fake.spawn(pid(3), backend(3, 5, "4-7", 0..PAGES));
    let mut balancer = balancer(&fake, BalanceSettings::default());
    let mut sampled_rounds = |count: usize, uses: &[(u32, u32, u64)]| {
        let rounds = (0..count).map(|_| {
            sample(&fake, uses);
            round(&fake, &mut balancer)
        });
        segment_pages(&rounds.collect::<Vec<_>>())
    };
    let moved = sampled_rounds(20, &[(1, 0, 0), (2, 4, 2)]);
    assert!((950..=1024).contains(&moved), "a quarter of 4096 pages, but for its edges: {moved}");
    assert_eq!(seen_by(&fake, 3), [PAGES - moved, moved]);
    fake.kill(pid(1));
    fake.spawn(pid(4), backend(4, 1, "0-3", 0..0));
    let uses = [(4, 1, 0), (2, 4, 2), (3, 5, 3)];
    assert_eq!(sampled_rounds(20, &uses), 0, "which pages have just moved is not known");
    let moved = sampled_rounds(100, &uses);
    assert!((950..=1024).contains(&moved), "another quarter: {moved}");
}

/// Goal: what one process maps alone is its own and goes home with it, until another maps it, too:
/// then no page of it follows the first any more.
#[test]
fn a_segment_of_one_process_is_its_own() {
    let (fake, mut alone) = (fake(), backend(1, 4, "4-7", 0..PAGES));
    alone.pages.values_mut().for_each(|page| page.shared = false);
    fake.spawn(pid(1), alone);
    let mut balancer = balancer(&fake, BalanceSettings::default());
    let reports = rounds(&fake, &mut balancer, 6);
    assert_eq!((moved(&reports), seen_by(&fake, 1)), (PAGES, [0, PAGES]));
    assert!(reports.iter().all(|report| report.segments.is_empty()));
    let mut other = backend(2, 0, "0-3", 0..0);
    for page in 0..PAGES {
        other.pages.insert(first(2) + page, Page { shared: true, ..Page::on(NodeId(1)) });
    }
    fake.spawn(pid(2), other);
    let reports = rounds(&fake, &mut balancer, 80);
    assert_eq!((moved(&reports), seen_by(&fake, 1)), (0, [0, PAGES]));
    let last = reports.last().unwrap();
    assert_eq!(segment(last).decision.reason, Reason::UsersApart);
    assert_eq!(row(last, 1).decision.numbers.pages, 64, "the rest is no longer its own");
}

/// Goal: without the right to move what others map a segment is left alone, and that is told.
#[test]
fn without_the_right_a_segment_stays() {
    let fake = two_backends(false);
    let mut balancer = balancer(&fake, BalanceSettings::default());
    let reports = rounds(&fake, &mut balancer, 20);
    assert_eq!((moved(&reports), seen_by(&fake, 1)), (0, [3000, 0]));
    assert_eq!(segment(reports.last().unwrap()).decision.reason, Reason::SharedMemory);
}

/// Settings under which a segment takes several seconds to move: 4 MiB of 16 in each.
fn slow() -> BalanceSettings {
    BalanceSettings { process_budget_bytes_per_s: 4 << 20, ..BalanceSettings::default() }
}

/// Rounds until some of the segment has moved, but not all.
fn rounds_until_under_way(fake: &FakeMachine, balancer: &mut nodeward_balancer::Balancer) {
    for _ in 0..20 {
        let report = round(fake, balancer);
        if segment_pages(std::slice::from_ref(&report)) > 0 {
            assert!(segment(&report).done.pages_pending > 0);
            return;
        }
    }
    panic!("nothing moved");
}

/// Goal: if the process ends through which a segment is moved, another that maps it takes over, and
/// goes on where it was: what the other has in its table comes home, and no page moves twice.
#[test]
fn another_process_takes_over() {
    for ends in [1, 2] {
        let fake = two_backends(true);
        let mut balancer = balancer(&fake, slow());
        rounds_until_under_way(&fake, &mut balancer);
        fake.kill(pid(ends));
        let reports = rounds(&fake, &mut balancer, 20);
        assert_eq!(seen_by(&fake, 3 - ends), [0, 3000], "{ends} ended");
        // 1024 pages moved before, of the first 3000.
        assert!(segment_pages(&reports) <= PAGES - 1024);
    }
}

/// Goal: the same within a call: the process that has the pages ends at its second call.
#[test]
fn a_process_that_ends_within_a_move_is_replaced() {
    let fake = two_backends(true);
    fake.update_process(pid(1), |process| {
        process.end_at_call = Some((1, nodeward_machine::Liveness::Exited));
    });
    let mut balancer = balancer(&fake, BalanceSettings::default());
    rounds(&fake, &mut balancer, 20);
    assert_eq!(seen_by(&fake, 2), [0, 3000]);
}

/// Goal: a segment that is unmapped by all while it moves is forgotten, and one that is cut short
/// is moved as far as it is; neither is an error.
#[test]
fn a_segment_that_is_deleted_or_resized_is_followed() {
    for left in [0, 2048] {
        let fake = two_backends(true);
        let mut balancer = balancer(&fake, slow());
        rounds_until_under_way(&fake, &mut balancer);
        for number in [1, 2] {
            fake.update_process(pid(number), |process| {
                let end = first(number) + left;
                process.pages.retain(|&page, _| page < end || page < FIRST);
                process.mappings.retain_mut(|mapping| {
                    if mapping.segment.is_some() {
                        mapping.range.end = end * 4096;
                    }
                    !mapping.range.is_empty()
                });
            });
        }
        let reports = rounds(&fake, &mut balancer, 20);
        // Of the first 2048 pages process 1 has all and process 2 those behind 1096.
        let expected = if left == 0 { [[0, 0], [0, 0]] } else { [[0, 2048], [0, 952]] };
        assert_eq!([seen_by(&fake, 1), seen_by(&fake, 2)], expected);
        assert!(reports.iter().all(|report| report.news.is_empty()), "{reports:?}");
    }
}

/// Goal: a segment that a process maps which the settings leave out stays where it is.
#[test]
fn a_segment_of_a_process_that_is_left_out_stays() {
    let fake = two_backends(true);
    let db = FakeProcess { name: "db".into(), ..backend(3, 6, "4-7", 0..10) };
    fake.spawn(pid(3), db);
    let except = ProcessFilter { names: vec!["db".into()], ..ProcessFilter::default() };
    let settings = BalanceSettings { except, ..BalanceSettings::default() };
    let mut balancer = balancer(&fake, settings);
    let reports = rounds(&fake, &mut balancer, 20);
    assert_eq!((moved(&reports), seen_by(&fake, 1)), (0, [3000, 0]));
    assert_eq!(segment(reports.last().unwrap()).decision.reason, Reason::Excluded);
}

/// Goal: a process that we may not look at may map a segment, too, which nobody can see: the
/// segment goes where its other users are, through them, and nothing is tried through that one.
#[test]
fn a_segment_moves_through_those_that_we_may_touch() {
    let fake = two_backends(true);
    let denied = FakeProcess { denied: Some("be root".into()), ..backend(3, 0, "0-3", 0..PAGES) };
    fake.spawn(pid(3), denied);
    let mut balancer = balancer(&fake, BalanceSettings::default());
    let reports = rounds(&fake, &mut balancer, 12);
    assert_eq!((segment_pages(&reports), seen_by(&fake, 3)), (PAGES, [0, PAGES]));
    let calls = |number| fake.process(pid(number)).unwrap().calls;
    assert!(calls(3) == 0 && calls(1) > 0);
    assert_eq!(reports.iter().map(|report| report.news.len()).sum::<usize>(), 1);
}

/// Goal: when its users change sides together a segment follows, but no page of it sooner than a
/// minute after it moved.
#[test]
fn no_page_moves_twice_in_a_minute() {
    let fake = two_backends(true);
    let mut balancer = balancer(&fake, BalanceSettings::default());
    rounds(&fake, &mut balancer, 12);
    assert_eq!(seen_by(&fake, 1), [0, 3000]);
    for number in [1, 2] {
        fake.update_process(pid(number), |process| {
            let thread = process.threads.get_mut(&1).unwrap();
            (thread.cpu, thread.cpus) = (CpuId(0), cpus("0-3"));
        });
    }
    // It moved in the first 12 s; its hold ends 60 s after the sample that followed.
    let reports = rounds(&fake, &mut balancer, 50);
    assert_eq!((segment_pages(&reports), seen_by(&fake, 1)), (0, [0, 3000]));
    assert_eq!(segment(reports.last().unwrap()).decision.reason, Reason::Waits);
    let reports = rounds(&fake, &mut balancer, 20);
    assert_eq!((segment_pages(&reports), seen_by(&fake, 1)), (PAGES, [3000, 0]));
}

/// Goal: 40 backends cost one sample of the segment, not 40; once nothing changes it is sampled
/// once a minute.
#[test]
fn a_segment_is_sampled_as_one() {
    let fake = fake();
    for number in 1..=40 {
        let cpu = number % 8;
        fake.spawn(pid(number), backend(number, cpu, "0-7", 0..PAGES));
    }
    let mut balancer = balancer(&fake, BalanceSettings::default());
    rounds(&fake, &mut balancer, 200);
    let reads = |number| fake.process(pid(number)).unwrap().page_reads;
    let before: Vec<u64> = (1..=40).map(reads).collect();
    let reports = rounds(&fake, &mut balancer, 120);
    assert_eq!(moved(&reports), 0);
    let sampled: u64 = reports.iter().map(|report| report.looked).sum();
    assert!((1..=3).contains(&sampled), "{sampled}");
    let others = (1..=40).filter(|&number| reads(number) > before[number as usize - 1]).count();
    assert!(others <= 4, "{others}");
}

/// Goal: while looks cost more than the budget, and processes wait for theirs all the time, a
/// segment still gets a look: in the round after the one in which it had to wait.
#[test]
fn a_segment_is_looked_at_however_many_processes_wait() {
    let fake = two_backends(true);
    for number in 3..60 {
        let mut process = fake_process([64, 0], 0, "0-7");
        process.locate_ns = 1_000_000; // 64 ms for a look; there are 20 ms a second
        fake.spawn(pid(number), process);
    }
    let mut balancer = balancer(&fake, BalanceSettings::default());
    let reports = rounds(&fake, &mut balancer, 4);
    let last = reports.last().unwrap();
    assert!(last.look_later > 40, "{last:?}");
    assert_eq!(segment(last).residency, [(NodeId(0), PAGES)].into());
    // Processes get theirs meanwhile: there are savings of 200 ms at first, for four.
    assert!(reports.iter().map(|report| report.looked).sum::<u64>() >= 7, "{reports:?}");
}

/// Goal: a report tells the segment by its name, whatever bytes are in that.
#[test]
fn a_report_names_the_segment() {
    let fake = two_backends(true);
    let mut balancer =
        balancer(&fake, BalanceSettings { act: false, ..BalanceSettings::default() });
    let reports = rounds(&fake, &mut balancer, 12);
    let told = serde_json::to_value(reports.last().unwrap()).unwrap();
    let row = &told["segments"][0];
    assert_eq!(row["name"], NAME);
    assert_eq!(row["segment"], serde_json::json!({ "major": 0, "minor": 1, "inode": 7 }));
    assert_eq!((&row["reason"], &row["users"]), (&"pays".into(), &2.into()));
    assert_eq!(
        (&row["done"]["pages_planned"], &row["done"]["pages_moved"]),
        (&PAGES.into(), &0.into())
    );
    assert_eq!(row["pages_by_node"], serde_json::json!({ "0": PAGES }));
    assert_eq!(told["processes"][0]["segments"][0]["inode"], 7);
}
