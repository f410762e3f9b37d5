//! Goal: memory of a process on two nodes goes to those who use it, by samples of few of its pages.

use std::sync::Arc;

use nodeward_balancer::{AccessChoice, BalanceSettings, Balancer};
use nodeward_machine::AccessSourceKind;
use nodeward_machine::fake::{FakeMachine, FakeProcess, FakeThread};
use nodeward_model::{Access, AccessKind, AccessSample, Accessor, CpuId, NodeId, Page};

use crate::stage::{S, balancer, cpus, fake, moved, pid, round, with};

const PAGE: u64 = 4096;
/// 64 MiB.
const PAGES: u64 = 16_384;
/// The first page of a process of the fake machine, as a page number.
const FIRST: u64 = 16;
/// A tick of 1 ms.
const TICK_NS: u64 = 1_000_000;

/// A process with a busy thread on each CPU of both nodes: larger than a node. Its memory is on
/// node 0.
fn wide() -> FakeProcess {
    let thread = |cpu: u32| {
        let all = FakeThread::new(CpuId(cpu), cpus("0-7"), 1000);
        (cpu + 1, FakeThread { cpu_time_ns: 60 * S, ..all })
    };
    let pages = vec![Page::on(NodeId(0)); PAGES as usize];
    FakeProcess { threads: (0..8).map(thread).collect(), ..FakeProcess::with_pages(&pages) }
}

/// Numbers of one seed, below a limit.
struct Draws(u64);

impl Draws {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % limit
    }
}

/// Returns samples of threads on each CPU, of the pages that CPUs of its node use.
fn samples(
    each: u64,
    draws: &mut Draws,
    uses: impl Fn(u32, &mut Draws) -> u64,
) -> Vec<AccessSample> {
    let mut samples = Vec::new();
    for cpu in (0..8).flat_map(|cpu| (0..each).map(move |_| cpu)) {
        let address = (FIRST + uses(cpu / 4, draws)) * PAGE + 8;
        let access = Access { address, accessor: Accessor::Cpu(CpuId(cpu)), count: 1 };
        let tid = Some(cpu + 1);
        samples.push(AccessSample { pid: pid(7), tid, kind: AccessKind::Unknown, access });
    }
    samples
}

/// Rounds, each with the samples of the second before it; the pages that were moved.
fn rounds(
    fake: &Arc<FakeMachine>,
    balancer: &mut Balancer,
    count: usize,
    draws: &mut Draws,
    uses: impl Fn(u32, &mut Draws) -> u64,
) -> u64 {
    fake.add_accesses(&[], TICK_NS);
    let mut reports = Vec::new();
    for _ in 0..count {
        reports.push(round(fake, balancer));
        fake.add_accesses(&samples(100, draws, &uses), TICK_NS);
    }
    moved(&reports)
}

/// Node 0 uses the first third of memory, node 1 the rest.
fn thirds(node: u32, draws: &mut Draws) -> u64 {
    let third = PAGES / 3;
    if node == 0 { draws.below(third) } else { third + draws.below(PAGES - third) }
}

/// Returns the number of these pages on each node.
fn nodes_of(fake: &FakeMachine, is_meant: impl Fn(u64) -> bool) -> [u64; 2] {
    let process = fake.process(pid(7)).unwrap();
    let pages = (0..PAGES).filter(|&page| is_meant(page));
    let on = |page: u64| process.pages[&(FIRST + page)].node();
    [0, 1].map(|node| pages.clone().filter(|&page| on(page) == Some(NodeId(node))).count() as u64)
}

/// Goal: by 800 samples a second, two thirds of 16,384 pages go to node 1 in a few rounds, and less
/// than a hundredth of the pages to the wrong node.
#[test]
fn ranges_go_to_their_users() {
    let fake = with(wide());
    let mut balancer = balancer(&fake, BalanceSettings::default());
    let mut draws = Draws(1);
    let pages = rounds(&fake, &mut balancer, 10, &mut draws, thirds);
    let third = PAGES / 3;
    let [first, rest] =
        [nodes_of(&fake, |page| page < third), nodes_of(&fake, |page| page >= third)];
    assert!(first[1] < PAGES / 100 && rest[0] < PAGES / 100, "{first:?} {rest:?}");
    assert!(pages <= (PAGES - third) * 105 / 100, "{pages}");
    let more = rounds(&fake, &mut balancer, 50, &mut draws, thirds);
    assert!(more < PAGES / 100, "{more}: what is there stays");
}

/// Goal: of pages that belong to both nodes at random only those move that were sampled twice.
/// Memory that all use stays; without samples nothing moves either.
#[test]
fn memory_of_nobody_stays() {
    let all = |_, draws: &mut Draws| draws.below(PAGES);
    let fake = with(wide());
    let mut scatter = balancer(&fake, BalanceSettings::default());
    rounds(&fake, &mut scatter, 60, &mut Draws(2), scattered);
    // Single pages move if two periods found the same user, and no other one was ever found.
    let [_, right] = nodes_of(&fake, |page| owner(page) == 1);
    let [_, wrong] = nodes_of(&fake, |page| owner(page) == 0);
    assert!(right > 500 && wrong == 0, "{right} {wrong}");
    let fake = with(wide());
    let mut shared = balancer(&fake, BalanceSettings::default());
    assert_eq!(rounds(&fake, &mut shared, 60, &mut Draws(3), all), 0);
    let fake = with(wide());
    let mut blind = balancer(&fake, BalanceSettings::default());
    let reports: Vec<_> = (0..20).map(|_| round(&fake, &mut blind)).collect();
    assert_eq!(moved(&reports), 0);
}

/// The node that a scattered page belongs to.
fn owner(page: u64) -> u32 {
    (page.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 63) as u32
}

/// A sample of a page of the node's threads.
fn scattered(node: u32, draws: &mut Draws) -> u64 {
    loop {
        let page = draws.below(PAGES);
        if owner(page) == node {
            return page;
        }
    }
}

/// A write fault on each page, by a thread of the node that this tells.
fn write_faults(writer: impl Fn(u64) -> u32) -> Vec<AccessSample> {
    let fault = |page| {
        let cpu = 4 * writer(page);
        let address = (FIRST + page) * PAGE;
        let access = Access { address, accessor: Accessor::Cpu(CpuId(cpu)), count: 1000 };
        AccessSample { pid: pid(7), tid: Some(cpu + 1), kind: AccessKind::Write, access }
    };
    (0..PAGES).map(fault).collect()
}

/// Rounds with samples, and a round of write faults in each second. Returns the moved pages, and
/// how many seconds of faults nobody took.
fn rounds_with_faults(
    fake: &Arc<FakeMachine>,
    balancer: &mut Balancer,
    count: usize,
    uses: impl Fn(u32, &mut Draws) -> u64,
    writer: impl Fn(u64, u64) -> u32,
) -> (u64, usize) {
    let mut draws = Draws(5);
    let (mut pages, mut untaken) = (0, 0);
    for second in 0..count as u64 {
        pages += rounds(fake, balancer, 1, &mut draws, &uses);
        untaken += usize::from(fake.write_faults_waiting() > 0);
        fake.set_write_faults(&write_faults(|page| writer(second, page)));
    }
    (pages, untaken)
}

/// Goal: where samples find no ranges, one round of write faults tells each page's writer, and all
/// pages that are away move, once. Then no faults are caused any more.
#[test]
fn writers_are_asked_where_samples_find_no_ranges() {
    let fake = with(wide());
    let mut balancer = balancer(&fake, BalanceSettings::default());
    let (pages, _) = rounds_with_faults(&fake, &mut balancer, 10, scattered, |_, page| owner(page));
    let away = (0..PAGES).filter(|&page| owner(page) == 1).count() as u64;
    assert_eq!(nodes_of(&fake, |page| owner(page) == 1), [0, away]);
    assert_eq!(nodes_of(&fake, |page| owner(page) == 0), [PAGES - away, 0]);
    assert_eq!(pages, away, "each page moved once");
    let (more, untaken) =
        rounds_with_faults(&fake, &mut balancer, 60, scattered, |_, page| owner(page));
    assert_eq!((more, untaken), (0, 60), "what is there stays, and nobody is asked");
}

/// Goal: memory that all threads write and use alike stays, whoever wrote each page first, and is
/// asked about ever more rarely: after 8, 16, 32 and 64 s, each time for one round.
#[test]
fn pages_of_all_stay_whoever_writes_first() {
    let fake = with(wide());
    let mut balancer = balancer(&fake, BalanceSettings::default());
    let all = |_, draws: &mut Draws| draws.below(PAGES);
    let first = |second: u64, page: u64| owner(page + second * 7919);
    let (pages, untaken) = rounds_with_faults(&fake, &mut balancer, 200, all, first);
    assert_eq!(pages, 0);
    assert!((180..196).contains(&untaken), "{untaken} of 200 seconds were not asked about");
}

/// Goal: with one source chosen no other one is used, and a balancer that only tells what it would
/// do has no process fault.
#[test]
fn nobody_is_asked_unless_that_is_wanted() {
    let access = AccessChoice::Only(AccessSourceKind::Registers);
    let chosen = BalanceSettings { access, ..BalanceSettings::default() };
    let only_tells = BalanceSettings { act: false, ..BalanceSettings::default() };
    for settings in [chosen, only_tells] {
        let fake = with(wide());
        let mut balancer = balancer(&fake, settings);
        let (_, untaken) =
            rounds_with_faults(&fake, &mut balancer, 20, scattered, |_, page| owner(page));
        assert_eq!(untaken, 19, "the first second has none");
    }
}

/// Goal: when users change places at once, memory stays for a minute where it was sent, and follows
/// then.
#[test]
fn what_was_sent_stays_for_a_minute() {
    let fake = with(wide());
    let mut balancer = balancer(&fake, BalanceSettings::default());
    let mut draws = Draws(4);
    rounds(&fake, &mut balancer, 10, &mut draws, thirds);
    let changed = |node: u32, draws: &mut Draws| thirds(1 - node, draws);
    let soon = rounds(&fake, &mut balancer, 40, &mut draws, changed);
    let third = PAGES / 3;
    // What node 0 had was not sent anywhere, and goes to node 1.
    assert!(soon <= third + PAGES / 100, "{soon}");
    let [on_0, _] = nodes_of(&fake, |page| page >= third);
    assert!(on_0 < PAGES / 100, "{on_0}");
    rounds(&fake, &mut balancer, 120, &mut draws, changed);
    let [on_0, _] = nodes_of(&fake, |page| page >= third);
    assert!(on_0 > (PAGES - third) * 95 / 100, "{on_0}");
}

/// Goal: samples of nobody whom the balancer knows, of CPUs that are not there, and of addresses
/// where nothing is, are left out.
#[test]
fn strange_samples_are_left_out() {
    let fake = fake();
    fake.spawn(pid(7), wide());
    let mut balancer = balancer(&fake, BalanceSettings::default());
    let access = |address, cpu| Access { address, accessor: Accessor::Cpu(CpuId(cpu)), count: 1 };
    let sample = |number, access| AccessSample {
        pid: pid(number),
        tid: None,
        kind: AccessKind::Write,
        access,
    };
    for second in 0..20_u64 {
        let report = round(&fake, &mut balancer);
        assert_eq!(report.moved_pages, 0);
        let strange = (0..400).flat_map(|n| {
            let page = (FIRST + n) * PAGE;
            [
                sample(8, access(page, 4)),
                sample(7, access(page, 99)),
                sample(7, access(u64::MAX - n * PAGE, 4)),
                sample(7, access(n * 7, 4)),
            ]
        });
        fake.add_accesses(&strange.collect::<Vec<_>>(), TICK_NS + second);
    }
}
