//! Groups of threads and memory, by rules and by calls.

use std::sync::Arc;

use nodeward_balancer::{
    BalanceSettings, Balancer, GroupCallError, GroupChange, GroupRow, LockedGroups, ProcessKey,
    RoundReport,
};
use nodeward_machine::Machine as _;
use nodeward_machine::fake::{FakeMachine, FakeProcess, FakeThread};
use nodeward_model::{
    CpuId, GroupHome, GroupSpec, MemorySelector, NodeId, Page, Pid, ProcessFilter, Range, SegmentId,
};
use nodeward_policy::placement::{Home, Reason};

use crate::stage::*;

/// The first page of the memory of a process, as a page number.
pub const FIRST: u64 = 16;

/// A process with these threads on CPUs, and 16 MiB on node 0.
pub fn named(threads: &[(u32, &str, u32)]) -> FakeProcess {
    let thread = |&(tid, name, cpu): &(u32, &str, u32)| {
        let thread = FakeThread::new(CpuId(cpu), cpus("0-7"), 1000);
        (tid, FakeThread { cpu_time_ns: 60 * S, name: name.into(), ..thread })
    };
    let threads = threads.iter().map(thread).collect();
    FakeProcess { threads, ..FakeProcess::with_pages(&pages([PAGES, 0])) }
}

pub fn range(pages: std::ops::Range<u64>) -> MemorySelector {
    MemorySelector::Range(Range::new((FIRST + pages.start) * 4096, (FIRST + pages.end) * 4096))
}

pub fn rule(name: &str, member: &str, memory: &[MemorySelector], home: &str) -> GroupSpec {
    GroupSpec {
        name: name.parse().unwrap(),
        home: home.parse().unwrap(),
        members: vec![member.parse().unwrap()],
        memory: memory.to_vec(),
    }
}

pub fn settings(groups: Vec<GroupSpec>) -> BalanceSettings {
    BalanceSettings { groups, ..BalanceSettings::default() }
}

/// Pages of a part of a process's memory by node.
pub fn part_of(fake: &FakeMachine, number: u32, pages: std::ops::Range<u64>) -> [u64; 2] {
    let process = fake.process(pid(number)).unwrap();
    let part = process.pages.range(FIRST + pages.start..FIRST + pages.end);
    let on = |node: u32| part.clone().filter(move |(_, page)| page.node() == Some(NodeId(node)));
    [0, 1].map(|node| on(node).count() as u64)
}

pub fn node_of(fake: &FakeMachine, number: u32, tid: u32) -> u32 {
    fake.process(pid(number)).unwrap().threads[&tid].cpu.0 / 4
}

pub fn group<'a>(report: &'a RoundReport, name: &str) -> &'a GroupRow {
    report.groups.iter().find(|row| row.name.as_str() == name).unwrap()
}

pub fn call<T>(balancer: &Balancer, call: impl FnOnce(&mut GroupCalls<'_>) -> T) -> T {
    call(&mut GroupCalls(balancer.called_groups().lock()))
}

/// Calls as programs make them.
pub struct GroupCalls<'a>(pub LockedGroups<'a>);

type Called = Result<(), GroupCallError>;

impl GroupCalls<'_> {
    pub fn add_group(&mut self, name: &str, home: GroupHome) -> Result<u32, GroupCallError> {
        self.0.add_group(name.parse().unwrap(), 0, home)
    }

    pub fn set_home(&mut self, group: u32, home: GroupHome) -> Called {
        self.0.change(GroupChange::SetHome { group, home })
    }

    pub fn delete(&mut self, group: u32) -> Called {
        self.0.change(GroupChange::Delete { group })
    }

    pub fn add_thread(&mut self, group: u32, key: ProcessKey, tid: u32) -> Called {
        self.0.change(GroupChange::AddThread { group, key, tid })
    }

    pub fn add_all_threads(&mut self, group: u32, key: ProcessKey) -> Called {
        self.0.change(GroupChange::AddAllThreads { group, key })
    }

    pub fn add_memory(&mut self, group: u32, key: ProcessKey, memory: MemorySelector) -> Called {
        self.0.change(GroupChange::AddMemory { group, key, memory })
    }

    pub fn add_self_moved(&mut self, group: u32, key: ProcessKey, range: Range) -> Called {
        self.0.change(GroupChange::AddSelfMoved { group, key, range })
    }
}

pub fn key(number: u32) -> (Pid, u64) {
    (pid(number), 0)
}

/// Goal: the threads that a rule names and the memory that it selects go to the group's home; all
/// else of the process stays at the home of the process, and both are told with their numbers.
#[test]
fn a_rule_divides_a_process() {
    let fake = with(named(&[(1, "main", 0), (2, "wal-1", 1)]));
    let half = range(PAGES / 2..PAGES);
    let mut balancer = balancer(&fake, settings(vec![rule("wal", "thread:wal*", &[half], "1")]));
    let reports = rounds(&fake, &mut balancer, 10);
    assert_eq!([1, 2].map(|tid| node_of(&fake, 7, tid)), [0, 1]);
    assert_eq!(part_of(&fake, 7, 0..PAGES / 2), [PAGES / 2, 0]);
    assert_eq!(part_of(&fake, 7, PAGES / 2..PAGES), [0, PAGES / 2]);
    let last = reports.last().unwrap();
    let wal = group(last, "wal");
    assert_eq!((&wal.home, wal.decision.reason), (&Some(Home::Node(NodeId(1))), Reason::GroupHome));
    assert_eq!(wal.processes, [pid(7)]);
    assert_eq!(
        (&wal.threads, &wal.residency),
        (&[(NodeId(1), 1)].into(), &[(NodeId(1), PAGES / 2)].into())
    );
    assert_eq!(row(last, 7).pages, [(NodeId(0), PAGES / 2)].into());
    assert_eq!(row(last, 7).home, Some(Home::Node(NodeId(0))));
    assert_eq!(moved(&reports), PAGES / 2, "each page once");
    let first = reports.iter().map(|report| group_done(report, "wal")).sum::<u64>();
    assert_eq!(first, PAGES / 2);
}

fn group_done(report: &RoundReport, name: &str) -> u64 {
    report
        .groups
        .iter()
        .filter(|row| row.name.as_str() == name)
        .map(|row| row.done.pages_moved)
        .sum()
}

/// Goal: two groups that each fit a node are placed apart, where the process as a whole would be
/// spread: eight busy threads are 8 CPUs, a node has 4, each group wants 4.
#[test]
fn a_process_wider_than_a_node_is_placed_by_groups() {
    let name = |tid: u32| if tid < 4 { "front" } else { "back" };
    let threads: Vec<_> = (0..8).map(|tid| (tid + 1, name(tid), tid % 4)).collect();
    let fake = with(named(&threads));
    let rules = vec![
        rule("front", "command:paper thread:front", &[range(0..PAGES / 2)], "auto"),
        rule("back", "command:paper thread:back", &[range(PAGES / 2..PAGES)], "auto"),
    ];
    let mut balancer = balancer(&fake, settings(rules));
    let reports = rounds(&fake, &mut balancer, 20);
    let last = reports.last().unwrap();
    let home = |name| match group(last, name).home {
        Some(Home::Node(NodeId(node))) => node,
        ref other => panic!("{other:?}"),
    };
    assert_eq!(home("front") + home("back"), 1, "one on each node");
    for tid in 1..=8 {
        let name = name(tid - 1);
        assert_eq!(node_of(&fake, 7, tid), home(name), "{name}");
    }
    let halves = [part_of(&fake, 7, 0..PAGES / 2), part_of(&fake, 7, PAGES / 2..PAGES)];
    let there = |node: u32| if node == 0 { [PAGES / 2, 0] } else { [0, PAGES / 2] };
    assert_eq!(halves, [there(home("front")), there(home("back"))]);
    assert_eq!(row(last, 7).decision.reason, Reason::Grouped);
}

/// Goal: a group that calls made of threads of two processes has one home, whose memory comes from
/// both; when one of them ends, it goes on, and it ends with the last.
#[test]
fn a_group_of_two_processes() {
    let fake = fake();
    fake.spawn(pid(7), named(&[(7, "a", 0)]));
    fake.spawn(pid(8), named(&[(8, "b", 1)]));
    let mut balancer = balancer(&fake, settings(Vec::new()));
    call(&balancer, |groups| {
        let one = groups.add_group("kv", GroupHome::Nodes("1".parse().unwrap()));
        groups.add_thread(one.unwrap(), key(7), 7).unwrap();
        groups.add_memory(1, key(7), range(0..PAGES)).unwrap();
        groups.add_memory(1, key(8), range(0..100)).unwrap();
    });
    let reports = rounds(&fake, &mut balancer, 10);
    assert_eq!(part_of(&fake, 7, 0..PAGES), [0, PAGES]);
    assert_eq!(part_of(&fake, 8, 0..100), [0, 100]);
    assert_eq!(part_of(&fake, 8, 100..PAGES), [PAGES - 100, 0]);
    assert_eq!(group(reports.last().unwrap(), "kv").processes, [pid(7), pid(8)]);
    fake.kill(pid(7));
    let reports = rounds(&fake, &mut balancer, 3);
    assert_eq!(group(reports.last().unwrap(), "kv").processes, [pid(8)]);
    fake.kill(pid(8));
    let reports = rounds(&fake, &mut balancer, 3);
    assert_eq!(reports.last().unwrap().groups.len(), 0);
    assert_eq!(call(&balancer, |groups| groups.0.iter().count()), 0);
}

/// Goal: a home that is set anew is taken at once, and a group that is deleted gives its memory and
/// its threads back to the process.
#[test]
fn homes_are_set_and_groups_deleted() {
    let fake = with(named(&[(1, "a", 0), (2, "b", 1)]));
    let mut balancer = balancer(&fake, settings(Vec::new()));
    let node = |text: &str| GroupHome::Nodes(text.parse().unwrap());
    call(&balancer, |groups| {
        groups.add_group("x", node("1")).unwrap();
        groups.add_thread(1, key(7), 2).unwrap();
        groups.add_memory(1, key(7), range(0..100)).unwrap();
    });
    rounds(&fake, &mut balancer, 6);
    assert_eq!((part_of(&fake, 7, 0..100), node_of(&fake, 7, 2)), ([0, 100], 1));
    call(&balancer, |groups| groups.set_home(1, node("0")).unwrap());
    rounds(&fake, &mut balancer, 6);
    assert_eq!((part_of(&fake, 7, 0..100), node_of(&fake, 7, 2)), ([100, 0], 0));
    call(&balancer, |groups| groups.set_home(1, node("1")).unwrap());
    rounds(&fake, &mut balancer, 6);
    call(&balancer, |groups| groups.delete(1).unwrap());
    let reports = rounds(&fake, &mut balancer, 100);
    assert_eq!((part_of(&fake, 7, 0..100), node_of(&fake, 7, 2)), ([100, 0], 0));
    assert_eq!(row(reports.last().unwrap(), 7).pages, [(NodeId(0), PAGES)].into());
}

/// Goal: addresses whose pages a process moves itself count where they are, as fixed ones, and none
/// of them is moved, though the group has another home; when the process leaves them to the
/// balancer they are. The first 100 pages are its own, the next 100 the balancer's.
#[test]
fn what_a_process_moves_itself_is_left_to_it() {
    let fake = with(named(&[(1, "a", 0), (2, "b", 1)]));
    let mut balancer = balancer(&fake, settings(Vec::new()));
    let MemorySelector::Range(own) = range(0..100) else { unreachable!("it is a range") };
    call(&balancer, |groups| {
        groups.add_group("x", GroupHome::Nodes("1".parse().unwrap())).unwrap();
        groups.add_thread(1, key(7), 2).unwrap();
        groups.add_self_moved(1, key(7), own).unwrap();
        groups.add_memory(1, key(7), range(100..200)).unwrap();
    });
    let reports = rounds(&fake, &mut balancer, 20);
    assert_eq!([part_of(&fake, 7, 0..100), part_of(&fake, 7, 100..200)], [[100, 0], [0, 100]]);
    let told = group(reports.last().unwrap(), "x");
    assert_eq!(told.residency, [(NodeId(0), 100), (NodeId(1), 100)].into());
    assert_eq!((&told.home, moved(&reports)), (&Some(Home::Node(NodeId(1))), 100));
    assert!(reports.last().unwrap().settled, "nothing is tried in vain");
    call(&balancer, |groups| groups.add_memory(1, key(7), range(0..100)).unwrap());
    rounds(&fake, &mut balancer, 10);
    assert_eq!(part_of(&fake, 7, 0..200), [0, 200]);
}

/// Goal: a process that called exec since it joined leaves its groups at its next sample: the fake
/// machine's programs have the checksum 0.
#[test]
fn exec_is_seen_in_samples() {
    for (program, stays) in [(0, 1), (7, 0)] {
        let fake = with(named(&[(1, "a", 0)]));
        let mut balancer = balancer(&fake, settings(Vec::new()));
        call(&balancer, |groups| {
            groups.add_group("x", GroupHome::Auto).unwrap();
            groups.0.see_program(key(7), program);
            groups.add_memory(1, key(7), range(0..100)).unwrap();
        });
        rounds(&fake, &mut balancer, 4);
        assert_eq!(call(&balancer, |groups| groups.0.iter().count()), stays);
    }
}

/// Goal: memory that is to be even is even on its nodes: 4096 pages are 2048 on each of two, give
/// or take 512, as moves end at multiples of 2 MiB.
#[test]
fn a_group_is_spread_evenly() {
    let fake = with(named(&[(1, "a", 0)]));
    let mut balancer = balancer(&fake, settings(Vec::new()));
    call(&balancer, |groups| {
        groups.add_group("x", "spread:0-1".parse().unwrap()).unwrap();
        groups.add_memory(1, key(7), range(0..PAGES)).unwrap();
    });
    let reports = rounds(&fake, &mut balancer, 10);
    let [near, far] = part_of(&fake, 7, 0..PAGES);
    assert!((PAGES / 2).abs_diff(far) <= 512, "{near} {far}");
    assert_eq!(group(reports.last().unwrap(), "x").decision.memory, Some(Reason::AllHome));
    assert_eq!(moved(&reports), far, "nothing goes to and fro");
}

/// Returns a machine with three processes that map one segment, which lies on node 0: 7 and 8 run
/// there, 9 on node 1.
fn backends_of_a_segment() -> Arc<FakeMachine> {
    const ID: SegmentId = SegmentId { major: 0, minor: 1, inode: 7 };
    let fake = fake();
    for (number, cpu) in [(7, 0), (8, 1), (9, 4)] {
        let mut process = named(&[(number, "backend", cpu)]);
        let page = |_| if number == 7 { Page::on(NodeId(0)) } else { Page::ABSENT };
        let pages: Vec<Page> = (0..PAGES).map(page).collect();
        process.map_segment(ID, "/dev/shm/kv", 1 << 20, &pages);
        fake.spawn(pid(number), process);
    }
    fake
}

/// Goal: a segment that a group has goes to the home of the group, though others use it more.
#[test]
fn a_segment_of_a_group_goes_home_with_it() {
    let fake = backends_of_a_segment();
    let selector = "file:/dev/shm/*".parse().unwrap();
    let rules = vec![rule("kv", "pid:9", &[selector], "1")];
    let mut balancer = balancer(&fake, settings(rules));
    let reports = rounds(&fake, &mut balancer, 80);
    let told = &reports.last().unwrap().segments[0];
    assert_eq!((&told.residency, told.mappers), (&[(NodeId(1), PAGES)].into(), 3));
}

/// Goal: a segment that several processes map does not go to the home of a group that a user made
/// who is not root, as its calls say nothing about memory of others: it stays with most of its
/// users. The same group of root takes it along.
#[test]
fn a_user_cannot_take_a_segment_of_others() {
    let pages_after = |owner: u32| {
        let fake = backends_of_a_segment();
        let mut balancer = balancer(&fake, settings(Vec::new()));
        call(&balancer, |groups| {
            let home = "1".parse().unwrap();
            let group = groups.0.add_group("kv".parse().unwrap(), owner, home).unwrap();
            groups.add_all_threads(group, key(9)).unwrap();
            groups.add_memory(group, key(9), "file:/dev/shm/*".parse().unwrap()).unwrap();
        });
        let reports = rounds(&fake, &mut balancer, 80);
        reports.last().unwrap().segments[0].residency.clone()
    };
    assert_eq!(pages_after(1000), [(NodeId(0), PAGES)].into());
    assert_eq!(pages_after(0), [(NodeId(1), PAGES)].into());
}

/// Goal: a segment that two groups have is placed for both: while they use it alike and are at home
/// on different nodes, it stays where it is, and nothing goes to and fro.
#[test]
fn two_groups_share_a_segment() {
    let fake = backends_of_a_segment();
    let selector: MemorySelector = "file:/dev/shm/*".parse().unwrap();
    let rules = [("a", "pid:7", "0"), ("b", "pid:9", "1")]
        .map(|(name, member, home)| rule(name, member, std::slice::from_ref(&selector), home));
    let mut balancer = balancer(&fake, settings(rules.into()));
    let reports = rounds(&fake, &mut balancer, 80);
    let told = &reports.last().unwrap().segments[0];
    assert_eq!(told.residency, [(NodeId(0), PAGES)].into());
    assert_eq!(moved(&reports), 0);
}

/// Goal: addresses of a group that a process maps elsewhere (mremap) leave the group with the old
/// ones; what is mapped there later is in it.
#[test]
fn memory_that_is_remapped_leaves_its_group() {
    let fake = with(named(&[(1, "a", 0)]));
    let mut balancer = balancer(&fake, settings(Vec::new()));
    call(&balancer, |groups| {
        let number = groups.add_group("x", GroupHome::Nodes("1".parse().unwrap())).unwrap();
        groups.add_memory(number, key(7), range(0..PAGES)).unwrap();
    });
    rounds(&fake, &mut balancer, 6);
    assert_eq!(part_of(&fake, 7, 0..PAGES), [0, PAGES]);
    let at = |first: u64| Range::new((FIRST + first) * 4096, (FIRST + first + PAGES) * 4096);
    fake.update_process(pid(7), |process| {
        process.mappings[0].range = at(2 * PAGES);
        let moved = std::mem::take(&mut process.pages).into_iter();
        process.pages = moved.map(|(number, page)| (number + 2 * PAGES, page)).collect();
    });
    let reports = rounds(&fake, &mut balancer, 400);
    let told = group(reports.last().unwrap(), "x");
    assert!(told.residency.values().all(|&pages| pages == 0), "{:?}", told.residency);
    let own: u64 = row(reports.last().unwrap(), 7).pages.values().sum();
    assert_eq!(own, PAGES);
}

/// Goal: a process with a memory policy of its own, or one that the settings leave out, is no part
/// of a group, and the others of the group are placed.
#[test]
fn who_must_be_left_alone_is_left_out() {
    let fake = fake();
    fake.spawn(pid(7), named(&[(7, "a", 0)]));
    fake.spawn(pid(8), named(&[(8, "a", 1)]));
    fake.spawn(pid(9), named(&[(9, "a", 2)]));
    fake.update_process(pid(8), |process| process.memory_policies.has_task_policy = true);
    let all = range(0..PAGES);
    let except = ProcessFilter { pids: vec![pid(9)], ..ProcessFilter::default() };
    let groups = vec![rule("x", "thread:a", &[all], "1")];
    let settings = BalanceSettings { groups, except, ..BalanceSettings::default() };
    let mut balancer = balancer(&fake, settings);
    let reports = rounds(&fake, &mut balancer, 10);
    let at = [7, 8, 9]
        .map(|number| (part_of(&fake, number, 0..PAGES)[1], node_of(&fake, number, number)));
    assert_eq!(at, [(PAGES, 1), (0, 0), (0, 0)]);
    assert_eq!(row(reports.last().unwrap(), 8).decision.reason, Reason::ExplicitPolicy);
}

/// Goal: threads are asked for their names again when others are there, so that one that is started
/// later is in the group, too; one that ends leaves it.
#[test]
fn threads_come_and_go() {
    let fake = with(named(&[(1, "main", 0)]));
    let mut balancer = balancer(&fake, settings(vec![rule("wal", "thread:wal*", &[], "1")]));
    let reports = rounds(&fake, &mut balancer, 5);
    assert!(reports.last().unwrap().groups.is_empty());
    fake.update_process(pid(7), |process| {
        let thread = FakeThread::new(CpuId(1), cpus("0-7"), 1000);
        process.threads.insert(2, FakeThread { name: "wal-1".into(), ..thread });
    });
    rounds(&fake, &mut balancer, 5);
    assert_eq!([1, 2].map(|tid| node_of(&fake, 7, tid)), [0, 1]);
    fake.update_process(pid(7), |process| _ = process.threads.remove(&2));
    let reports = rounds(&fake, &mut balancer, 5);
    assert!(reports.last().unwrap().groups.is_empty());
}

/// Goal: a balancer that is killed leaves groups, their homes and their members to the next one.
#[test]
fn groups_go_on_after_a_kill() {
    let fake = with(named(&[(1, "a", 0), (2, "b", 1)]));
    let rules = vec![rule("a", "thread:a", &[range(0..100)], "auto")];
    let mut first = balancer(&fake, settings(rules.clone()));
    call(&first, |groups| {
        let home = GroupHome::Nodes("1".parse().unwrap());
        groups.0.add_group("b".parse().unwrap(), 1000, home).unwrap();
        groups.add_thread(1, key(7), 2).unwrap();
        groups.add_memory(1, key(7), range(100..200)).unwrap();
    });
    let before = rounds(&fake, &mut first, 8);
    let saved = first.saved_state();
    drop(first);
    let all = ProcessFilter::default();
    let mut second = Balancer::new(machine(&fake), &all, settings(rules), Some(saved)).unwrap();
    let after = rounds(&fake, &mut second, 3);
    for name in ["a", "b"] {
        let [before, after] =
            [before.last(), after.last()].map(|report| group(report.unwrap(), name));
        assert_eq!((&before.home, before.decision.entity), (&after.home, after.decision.entity));
        assert_eq!(before.residency, after.residency);
    }
    assert_eq!(moved(&after), 0);
    let owner = call(&second, |groups| groups.0.get(1).map(|group| group.owner));
    assert_eq!(owner, Some(1000));
    fake.sleep_ns(1);
}

/// Goal: what the threads of groups access most goes where these are at home, though no rule says
/// which memory that is: the first half is used by one group, the second by the other.
#[test]
fn memory_goes_to_the_groups_that_touch_it() {
    use nodeward_model::{Access, AccessKind, AccessSample, Accessor};
    let fake = with(named(&[(1, "front", 0), (2, "back", 1)]));
    let touched = [MemorySelector::Touched];
    let rules = vec![
        rule("front", "thread:front", &touched, "0"),
        rule("back", "thread:back", &touched, "1"),
    ];
    let mut balancer = balancer(&fake, settings(rules));
    let sample = |fake: &Arc<FakeMachine>| {
        let samples = [(1, 0), (2, PAGES / 2)].into_iter().flat_map(|(tid, first)| {
            (0..400_u64).map(move |draw| {
                let page = FIRST + first + draw * 167 % (PAGES / 2);
                let accessor = Accessor::Cpu(CpuId(tid - 1));
                let access = Access { address: page * 4096 + 8, accessor, count: 1 };
                AccessSample { pid: pid(7), tid: Some(tid), kind: AccessKind::Unknown, access }
            })
        });
        fake.add_accesses(&samples.collect::<Vec<_>>(), 1_000_000);
    };
    for _ in 0..60 {
        round(&fake, &mut balancer);
        sample(&fake);
    }
    let report = round(&fake, &mut balancer);
    assert_eq!(row(&report, 7).decision.reason, Reason::WithGroups);
    let [front, back] = [part_of(&fake, 7, 0..PAGES / 2), part_of(&fake, 7, PAGES / 2..PAGES)];
    assert_eq!(front, [PAGES / 2, 0]);
    assert!(back[1] >= PAGES / 2 * 9 / 10, "{back:?}");
}
