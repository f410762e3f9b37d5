//! Tests of samples of real processes.

use std::fs;
use std::path::Path;
use std::process::{Child, Command};

use nodeward_machine::Machine;

use super::{pid, pids};
use crate::Linux;
use crate::test_wait::wait_until;
use crate::watch::*;

/// A child that is killed when the value is dropped.
struct SleepChild(Child);

impl SleepChild {
    fn start() -> Self {
        Self(Command::new("sleep").arg("600").spawn().unwrap())
    }

    fn pid(&self) -> Pid {
        pid(self.0.id())
    }
}

impl Drop for SleepChild {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Goal: a real process is seen with its threads, its affinity and its memory; once it has exited
/// and is not waited for yet, it is not.
#[test]
fn real_processes_are_seen() {
    let machine = Linux::open();
    let mut sleeper = SleepChild::start();
    let us = pid(std::process::id());
    let named = ProcessFilter { pids: vec![us, sleeper.pid()], ..ProcessFilter::default() };
    let mut watch = machine.watch(&named).unwrap();
    let snapshot = watch.snapshot().unwrap();
    let mut expected = [us.number(), sleeper.pid().number()];
    expected.sort_unstable();
    assert_eq!(pids(&snapshot), expected);
    let own = snapshot.processes.iter().find(|process| process.pid == us).unwrap();
    let tid = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned();
    let thread = own.threads.iter().find(|thread| thread.tid == tid).unwrap();
    assert_eq!(*thread.cpus, crate::affinity::get(tid).unwrap());
    assert!(own.non_file_bytes > 0 && own.cpu_time_ns > 0 && !own.frozen);
    let room: u64 = snapshot.nodes.values().map(|node| node.pages).sum();
    assert!(room > 0 && snapshot.denied.is_empty(), "{snapshot:?}");

    sleeper.0.kill().unwrap();
    wait_until("a zombie is left out", || pids(&watch.snapshot().unwrap()) == [us.number()]);
}

/// Goal: the CPU time of a real process's children is reported after they have exited.
#[test]
fn ended_children_are_counted() {
    let us = pid(std::process::id());
    let named = ProcessFilter { pids: vec![us], ..ProcessFilter::default() };
    let counted = || {
        let count = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
        assert!(Command::new("sh").args(["-c", count]).status().unwrap().success());
        Linux::open().watch(&named).unwrap().snapshot().unwrap().processes[0].children_cpu_time_ns
            > 0
    };
    wait_until("children come to a tick of the clock", counted);
}

/// Goal: threads that start and exit during the watch are seen or not, and never cause an error.
#[test]
fn threads_come_and_go() {
    let us = pid(std::process::id());
    let mut watch =
        Linux::open().watch(&ProcessFilter { pids: vec![us], ..ProcessFilter::default() }).unwrap();
    for _ in 0..200 {
        let short =
            std::thread::spawn(|| rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned());
        let snapshot = watch.snapshot().unwrap();
        let tid = short.join().unwrap();
        assert!(snapshot.processes[0].threads.is_sorted_by_key(|thread| thread.tid));
        // A join may return a little before the kernel has removed the thread.
        let has =
            |snapshot: &MachineSnapshot| snapshot.processes[0].threads.iter().any(|t| t.tid == tid);
        wait_until("a thread has left", || !has(&watch.snapshot().unwrap()));
    }
}

/// Goal: a process in a frozen group is reported as frozen, and not after the thaw.
#[test]
fn a_real_group_is_frozen() {
    let root = Path::new("/");
    let groups = crate::cgroup::MemoryGroups::find(root).unwrap();
    let top = groups.folder_v2_of(Path::new("/"));
    let group = top.map(|top| top.join(format!("nodeward-test-{}", std::process::id())));
    let Some(group) = group.filter(|group| fs::create_dir(group).is_ok()) else {
        return eprintln!("skipped: no control group of version 2 may be made here");
    };
    let sleeper = SleepChild::start();
    fs::write(group.join("cgroup.procs"), sleeper.pid().to_string()).unwrap();
    let wanted = ProcessFilter { cgroups: vec![group.clone()], ..ProcessFilter::default() };
    let mut watch = Linux::open().watch(&wanted).unwrap();
    let mut turn = |text: &str, expected: bool| {
        fs::write(group.join("cgroup.freeze"), text).unwrap();
        wait_until("the group is as it was told", || {
            watch.snapshot().unwrap().processes[0].frozen == expected
        });
    };
    turn("1", true);
    turn("0", false);
    drop(sleeper);
    wait_until("nobody is left in the group", || fs::remove_dir(&group).is_ok());
}
