//! Groups of this process, with an agent that is started here: real threads, and no privileges.

use std::path::Path;
use std::sync::{Barrier, mpsc};
use std::thread;

use nodeward::{GroupAgent, GroupFailure, GroupHome, Pager, PagerOptions, RegionOptions};
use nodeward_agent::limits::{CONNECTIONS_OF_USER_MAX, WAITING_OF_USER_MAX};
use nodeward_balancer::{CalledPart, ThreadSet};
use nodeward_linux::test_wait::wait_until;

use crate::stage::{Stage, Target};

#[path = "../examples/groups.rs"]
mod groups_example;
#[allow(dead_code, reason = "the tests of the agent use the rest")]
#[path = "../../agent/tests/socket/stage.rs"]
mod stage;

fn own_tid() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs()
}

/// Returns the part of one process in a group; `None` if there is no such group, or it has no
/// member.
fn part(stage: &Stage, id: u32) -> Option<CalledPart> {
    stage.groups.lock().get(id)?.parts.values().next().cloned()
}

fn has_group(stage: &Stage, id: u32) -> bool {
    stage.groups.lock().get(id).is_some()
}

fn threads(stage: &Stage, id: u32) -> Vec<u32> {
    match part(stage, id).unwrap().threads {
        ThreadSet::These(tids) => tids.into_iter().collect(),
        ThreadSet::All => panic!("all threads"),
    }
}

/// Goal: a group has what was put into it, and is deleted with its handle; what was asked of it
/// afterwards, over a handle of its number, is refused.
#[test]
fn a_group_ends_with_its_handle() {
    let stage = Stage::new();
    let agent = GroupAgent::at(&stage.path());
    let group = agent.make("a", &GroupHome::Auto).unwrap();
    let id = group.id();
    assert_eq!(agent.group_of(own_tid()).unwrap(), None);
    group.add_current_thread().unwrap();
    assert_eq!(
        (threads(&stage, id), agent.group_of(own_tid()).unwrap()),
        (vec![own_tid()], Some(id))
    );
    assert_eq!(group.nodes().unwrap(), None, "no round yet");
    group.set_home(&"spread:0-1".parse().unwrap()).unwrap();
    assert_eq!(stage.groups.lock().get(id).unwrap().home.to_string(), "spread:0-1");

    let same = agent.open(id);
    drop(group);
    assert!(!has_group(&stage, id));
    assert_eq!(agent.group_of(own_tid()).unwrap(), None);
    for refused in
        [same.add_current_thread(), same.set_home(&GroupHome::Auto), same.nodes().map(|_| ())]
    {
        assert!(matches!(refused, Err(GroupFailure::NoSuchGroup { id: it }) if it == id));
    }
}

/// Goal: memory is the whole pages around what was named: of 5000 bytes from the middle of a page
/// of 4096, two pages; of a region, all of it.
#[test]
fn memory_is_whole_pages() {
    let stage = Stage::new();
    let group = GroupAgent::at(&stage.path()).make("a", &GroupHome::Auto).unwrap();
    let pager = Pager::open(&PagerOptions::default()).unwrap();
    let region = pager.reserve(4 << 20, &RegionOptions::default()).unwrap();
    let start = region.as_ptr().addr();
    group.add_memory(region.as_ptr().wrapping_add(100), 5000).unwrap();
    group.add_memory(region.as_ptr(), 0).unwrap();
    let memory = |id| -> Vec<String> {
        part(&stage, id).unwrap().memory.iter().map(ToString::to_string).collect()
    };
    assert_eq!(memory(group.id()), [format!("{start:x}-{:x}", start + 2 * 4096)]);
    group.add_region(&region).unwrap();
    assert_eq!(memory(group.id()), [format!("{start:x}-{:x}", start + (4 << 20))]);
    let words = [0_u64; 4];
    group.add_slice(&words).unwrap();
    assert_eq!(memory(group.id()).len(), 2);
    group.add_slice::<u64>(&[]).unwrap();
    let beyond = std::ptr::without_provenance(usize::MAX - 10);
    let refused = group.add_memory(beyond, 100);
    assert!(matches!(refused, Err(GroupFailure::NoMemory { bytes: 100, .. })), "{refused:?}");
    assert_eq!(memory(group.id()).len(), 2);
}

/// Goal: threads are named by their numbers: those of this process, and of others that the caller
/// may touch. One that has ended, and numbers that no thread has, are told.
#[test]
fn threads_by_number() {
    let stage = Stage::new();
    let agent = GroupAgent::at(&stage.path());
    let group = agent.make("a", &GroupHome::Auto).unwrap();
    let (tell, told) = mpsc::channel();
    let (end, ends) = mpsc::channel::<()>();
    let worker = thread::spawn(move || {
        tell.send(own_tid()).unwrap();
        ends.recv().unwrap_err();
    });
    let tid = told.recv().unwrap();
    group.add_thread(tid).unwrap();
    assert_eq!(threads(&stage, group.id()), [tid]);
    drop(end);
    worker.join().unwrap();
    let task = format!("/proc/self/task/{tid}");
    wait_until("the thread is gone", || !Path::new(&task).exists());
    for tid in [tid, 0, u32::MAX] {
        let refused = group.add_thread(tid);
        assert!(matches!(refused, Err(GroupFailure::NoSuchThread { tid: it }) if it == tid));
        assert!(matches!(agent.group_of(tid), Err(GroupFailure::NoSuchThread { .. })));
    }
    let child = stage.keep(Target::of_caller()).number();
    group.add_thread(child).unwrap();
    assert_eq!(agent.group_of(child).unwrap(), Some(group.id()));
    group.add_all_threads().unwrap();
    assert_eq!(agent.group_of(own_tid()).unwrap(), Some(group.id()));
}

/// Goal: all threads of a program may join at once, more than the agent lets a user have requests
/// and connections: each is in the group in the end.
#[test]
fn many_threads_join_at_once() {
    let stage = Stage::new();
    let group = GroupAgent::at(&stage.path()).make("a", &GroupHome::Auto).unwrap();
    let count = WAITING_OF_USER_MAX + CONNECTIONS_OF_USER_MAX + 1; // 73
    let all_there = Barrier::new(count);
    thread::scope(|scope| {
        for _ in 0..count {
            scope.spawn(|| {
                all_there.wait();
                let joined = group.add_current_thread();
                all_there.wait(); // none ends before all have joined
                joined.unwrap();
            });
        }
    });
    assert_eq!(threads(&stage, group.id()).len(), count);
}

/// Goal: a group that was left to its members outlives its handle, and ends when its last member
/// goes to another group.
#[test]
fn a_group_can_be_left() {
    let stage = Stage::new();
    let agent = GroupAgent::at(&stage.path());
    let group = agent.make("a", &GroupHome::Auto).unwrap();
    group.add_current_thread().unwrap();
    let id = group.leave();
    agent.open(id).add_current_thread().unwrap();
    assert_eq!(agent.group_of(own_tid()).unwrap(), Some(id), "`open` ends nothing, either");
    let other = agent.make("b", &GroupHome::Auto).unwrap();
    other.add_current_thread().unwrap();
    assert!(!has_group(&stage, id) && has_group(&stage, other.id()));
    agent.open(other.id()).delete().unwrap();
    assert!(matches!(other.delete(), Err(GroupFailure::NoSuchGroup { .. })));
}

/// Goal: where there is no agent, the error says where it was looked for and what to do; what is no
/// name is told without one.
#[test]
fn without_an_agent() {
    let stage = Stage::new();
    let path = stage.path();
    let agent = GroupAgent::at(&path);
    let group = agent.make("a", &GroupHome::Auto).unwrap();
    drop(stage);
    for refused in [group.add_current_thread(), agent.make("b", &GroupHome::Auto).map(|_| ())] {
        let refused = refused.unwrap_err();
        assert!(matches!(refused, GroupFailure::NoAgent { .. }), "{refused}");
        let words = refused.to_string();
        assert!(
            words.contains(path.to_str().unwrap()) && words.contains("balance.socket"),
            "{words}"
        );
    }
    let refused = agent.make("a b", &GroupHome::Auto).unwrap_err();
    assert!(matches!(refused, GroupFailure::Invalid(_)) && refused.to_string().contains("1 to 64"));
}

/// Goal: the example does its work with an agent, where its two parts are groups that end with it,
/// and without one.
#[test]
fn the_example_groups_its_parts() {
    let stage = Stage::new();
    let mut groups = groups_example::run(&GroupAgent::at(&stage.path())).unwrap();
    groups.sort_unstable();
    assert_eq!(groups, [1, 2]);
    assert_eq!(stage.groups.lock().iter().count(), 0);
    let nobody = GroupAgent::at(&stage.path().with_extension("none"));
    assert!(groups_example::run(&nobody).unwrap().is_empty());
    groups_example::main().unwrap();
}
