//! Threads that members of groups start join these groups.

use std::collections::BTreeMap;
use std::sync::Arc;

use nodeward_balancer::{
    BalanceSettings, Balancer, CalledGroups, GroupChange, Notice, RoundReport,
};
use nodeward_machine::fake::{FakeMachine, FakeProcess, FakeThread};
use nodeward_machine::{Machine as _, ThreadRecord};
use nodeward_model::{CpuId, GroupHome, Pid, ProcessFilter};
use proptest::prelude::*;

use crate::groups::{GroupCalls, call};
use crate::stage::*;

/// Returns the key of process 7 in groups.
fn key() -> (Pid, u64) {
    (pid(7), 0)
}

/// Process 7 with thread 7.
fn one_thread() -> Arc<FakeMachine> {
    let thread = FakeThread::new(CpuId(0), cpus("0-7"), 1000);
    let threads = [(7, FakeThread { cpu_time_ns: 60 * S, ..thread })].into();
    with(FakeProcess { threads, ..FakeProcess::with_pages(&pages([PAGES, 0])) })
}

/// Returns a machine with process 7, and a balancer with two groups, the first of which has the
/// thread.
fn grouped() -> (Arc<FakeMachine>, Balancer) {
    let fake = one_thread();
    let balancer = balancer(&fake, BalanceSettings::default());
    let called = balancer.called_groups();
    let mut groups = called.lock();
    for name in ["a", "b"] {
        groups.add_group(name.parse().unwrap(), 0, GroupHome::Auto).unwrap();
    }
    groups.change(GroupChange::AddThread { group: 1, key: key(), tid: 7 }).unwrap();
    drop(groups);
    (fake, balancer)
}

fn group_of(balancer: &Balancer, tids: &[u32]) -> Vec<Option<u32>> {
    let called = balancer.called_groups();
    let groups = called.lock();
    tids.iter().map(|&tid| groups.group_of(key(), tid)).collect()
}

fn news(reports: &[RoundReport]) -> Vec<Notice> {
    let is_of_starts =
        |one: &&Notice| matches!(one, Notice::StartsUnseen { .. } | Notice::StartsLost { .. });
    reports.iter().flat_map(|report| &report.news).filter(is_of_starts).cloned().collect()
}

/// Goal: a thread joins the group of the thread that started it, also through threads that have
/// ended when anybody looks, and from the moment of the call on, before any round; the group's home
/// is its home then.
#[test]
fn started_threads_join() {
    let (fake, mut balancer) = grouped();
    fake.start_thread(pid(7), 7, 8);
    fake.start_thread(pid(7), 8, 9);
    fake.end_thread(pid(7), 8);
    fake.start_thread(pid(7), 9, 10);
    assert_eq!(group_of(&balancer, &[7, 8, 9, 10]), [Some(1), None, Some(1), Some(1)]);
    let home = GroupHome::Nodes("1".parse().unwrap());
    call(&balancer, |groups| groups.set_home(1, home)).unwrap();
    rounds(&fake, &mut balancer, 6);
    let nodes: Vec<u32> =
        fake.process(pid(7)).unwrap().threads.values().map(|thread| thread.cpu.0 / 4).collect();
    assert_eq!(nodes, [1, 1, 1]);
}

/// Goal: calls and starts take effect in the order in which they happened: a thread is in the group
/// in which its starter was when it started it, what a call said of it afterwards holds, and one
/// that was started before its starter joined is in none.
#[test]
fn calls_and_starts_take_turns() {
    let (fake, balancer) = grouped();
    let called = balancer.called_groups();
    let calls = || GroupCalls(called.lock());
    fake.start_thread(pid(7), 7, 8);
    fake.start_thread(pid(7), 7, 9);
    calls().add_thread(2, key(), 9).unwrap();
    calls().add_thread(2, key(), 7).unwrap();
    fake.start_thread(pid(7), 7, 10);
    fake.start_thread(pid(7), 8, 11);
    assert_eq!(group_of(&balancer, &[8, 9, 10, 11]), [Some(1), Some(2), Some(2), Some(1)]);
    calls().delete(2).unwrap();
    fake.start_thread(pid(7), 7, 12);
    calls().add_thread(1, key(), 7).unwrap();
    assert_eq!(group_of(&balancer, &[12, 7]), [None, Some(1)]);
}

/// Goal: a tid that is given again has nothing of the thread that had it before, and a pid neither:
/// the record of a thread of another process of the same pid is for that process.
#[test]
fn numbers_are_used_again() {
    let (fake, balancer) = grouped();
    let called = balancer.called_groups();
    let calls = || GroupCalls(called.lock());
    fake.start_thread(pid(7), 7, 8);
    fake.start_thread(pid(7), 7, 9);
    calls().add_thread(2, key(), 9).unwrap();
    fake.end_thread(pid(7), 8);
    fake.end_thread(pid(7), 9);
    fake.start_thread(pid(7), 7, 9);
    assert_eq!(group_of(&balancer, &[8, 9]), [None, Some(1)]);
    let later = (pid(7), 1000);
    calls().add_thread(2, later, 7).unwrap();
    fake.start_thread(pid(7), 7, 10);
    let groups = called.lock();
    assert_eq!([key(), later].map(|key| groups.group_of(key, 10)), [None, Some(2)]);
}

/// Goal: who starts which is followed only while a group has some threads of a process, so that
/// nobody pays for it else: not for groups of memory, nor for those that have all threads.
#[test]
fn it_is_followed_while_it_matters() {
    let (fake, mut balancer) = grouped();
    assert_eq!(fake.thread_records_opened(), (true, 1));
    rounds(&fake, &mut balancer, 3);
    assert_eq!(fake.thread_records_opened(), (true, 1));
    let called = balancer.called_groups();
    let calls = || GroupCalls(called.lock());
    calls().add_all_threads(1, key()).unwrap();
    assert_eq!(fake.thread_records_opened(), (false, 1));
    fake.start_thread(pid(7), 7, 8);
    assert_eq!(group_of(&balancer, &[8]), [Some(1)]);
    calls().add_thread(2, key(), 8).unwrap();
    fake.start_thread(pid(7), 8, 9);
    fake.start_thread(pid(7), 7, 10);
    assert_eq!(group_of(&balancer, &[8, 9, 10]), [Some(2), Some(2), Some(1)]);
    let saved = balancer.saved_state();
    calls().delete(2).unwrap();
    drop(balancer);
    assert_eq!(fake.thread_records_opened(), (false, 2));
    let all = ProcessFilter::default();
    let settings = BalanceSettings::default();
    let mut next = Balancer::new(machine(&fake), &all, settings, Some(saved)).unwrap();
    rounds(&fake, &mut next, 1);
    fake.start_thread(pid(7), 9, 11);
    assert_eq!(group_of(&next, &[11]), [Some(2)], "it goes on after a kill");
}

/// Goal: where records are forbidden groups are as if nobody started anything; that is told once,
/// with what helps, and where it has become possible, threads join. A minute passes between two
/// tries: 60 rounds of a second.
#[test]
fn what_is_forbidden_is_told() {
    let fake = one_thread();
    fake.deny_thread_records(Some("run as root"));
    let mut balancer = balancer(&fake, BalanceSettings::default());
    let called = balancer.called_groups();
    let calls = || GroupCalls(called.lock());
    called.lock().add_group("a".parse().unwrap(), 0, GroupHome::Auto).unwrap();
    assert_eq!(called.lock().starts_refusal(), None, "nobody needs it");
    calls().add_thread(1, key(), 7).unwrap();
    fake.start_thread(pid(7), 7, 8);
    let reports = rounds(&fake, &mut balancer, 10);
    assert_eq!(news(&reports), [Notice::StartsUnseen { remedy: "run as root".to_owned() }]);
    assert_eq!(called.lock().starts_refusal(), Some("run as root"));
    assert_eq!(group_of(&balancer, &[7, 8]), [Some(1), None]);
    fake.deny_thread_records(None);
    fake.sleep_ns(60 * S);
    assert_eq!(news(&rounds(&fake, &mut balancer, 3)), []);
    fake.start_thread(pid(7), 7, 9);
    assert_eq!(group_of(&balancer, &[8, 9]), [None, Some(1)]);
    assert_eq!(called.lock().starts_refusal(), None);
}

/// Goal: records that were lost are counted and told, and what comes after them is followed: of the
/// two that started meanwhile nobody knows, the starter of the next is one of them.
#[test]
fn lost_records_are_told() {
    let (fake, mut balancer) = grouped();
    fake.start_thread(pid(7), 7, 8);
    fake.start_thread(pid(7), 7, 9);
    fake.lose_thread_records();
    fake.start_thread(pid(7), 8, 10);
    fake.start_thread(pid(7), 7, 11);
    let reports = rounds(&fake, &mut balancer, 3);
    assert_eq!(news(&reports), [Notice::StartsLost { records: 2 }]);
    assert_eq!(group_of(&balancer, &[8, 9, 10, 11]), [None, None, None, Some(1)]);
    fake.start_thread(pid(7), 7, 12);
    fake.lose_thread_records();
    assert_eq!(news(&rounds(&fake, &mut balancer, 3)), [Notice::StartsLost { records: 1 }]);
    assert_eq!(balancer.called_groups().lock().starts_lost(), 3);
}

/// Goal: a member that a snapshot does not show, because its process hardly ran since, stays until
/// it has ended indeed.
#[test]
fn members_that_snapshots_lack_stay() {
    let (fake, mut balancer) = grouped();
    rounds(&fake, &mut balancer, 2);
    fake.update_process(pid(7), |process| _ = process.unseen_threads.insert(7));
    rounds(&fake, &mut balancer, 2);
    assert_eq!(group_of(&balancer, &[7]), [Some(1)]);
    fake.update_process(pid(7), |process| process.unseen_threads.clear());
    fake.start_thread(pid(7), 7, 8);
    // Its end is not recorded.
    fake.update_process(pid(7), |process| _ = process.threads.remove(&8));
    assert_eq!(group_of(&balancer, &[8]), [Some(1)]);
    rounds(&fake, &mut balancer, 2);
    assert_eq!(group_of(&balancer, &[7, 8]), [Some(1), None]);
}

/// An event of the threads of a process with groups 1 to 3.
#[derive(Clone, Copy, Debug)]
enum Happening {
    Starts { starter: u32, tid: u32 },
    Ends(u32),
    IsCalled { tid: u32, group: u32 },
}

fn happening() -> impl Strategy<Value = Happening> {
    use Happening::{Ends, IsCalled, Starts};
    let tid = || 1..8_u32;
    prop_oneof![
        (tid(), tid()).prop_map(|(starter, tid)| Starts { starter, tid }),
        tid().prop_map(Ends),
        (tid(), 1..4_u32).prop_map(|(tid, group)| IsCalled { tid, group }),
    ]
}

proptest! {
    /// Goal: whatever happens in whatever order, a thread is in the group that a map of threads
    /// tells which is kept step by step, also where records are taken several at a time: they come
    /// before the call that follows them.
    #[test]
    fn each_thread_is_in_one_group(events in prop::collection::vec(happening(), 0..60)) {
        let mut groups = CalledGroups::default();
        for name in ["a", "b", "c"] {
            groups.add_group(name.parse().unwrap(), 0, GroupHome::Auto).unwrap();
            // Memory keeps a group that has no thread.
            let last = groups.iter().last().unwrap().0;
            groups.add_memory(last, key(), "heap".parse().unwrap()).unwrap();
            groups.add_memory(last, (pid(8), 0), "heap".parse().unwrap()).unwrap();
        }
        let (mut truth, mut waiting) = (BTreeMap::new(), Vec::new());
        for event in events {
            match event {
                Happening::Starts { starter, tid } => {
                    if let (Some(&group), false) = (truth.get(&starter), truth.contains_key(&tid)) {
                        truth.insert(tid, group);
                    }
                    waiting.push(ThreadRecord::Started { pid: pid(7), tid, starter });
                }
                Happening::Ends(tid) => {
                    truth.remove(&tid);
                    waiting.push(ThreadRecord::Ended { pid: pid(7), tid });
                }
                Happening::IsCalled { tid, group } => {
                    groups.see_threads(&std::mem::take(&mut waiting));
                    if groups.add_thread(group, key(), tid).is_ok() {
                        truth.insert(tid, group);
                    }
                }
            }
        }
        groups.see_threads(&waiting);
        for tid in 1..8 {
            prop_assert_eq!(groups.group_of(key(), tid), truth.get(&tid).copied(), "{}", tid);
        }
    }
}
