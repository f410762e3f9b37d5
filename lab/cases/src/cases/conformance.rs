//! The conformance tests that every machine must pass, on this kernel.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::thread;
use std::time::Duration;

use nodeward_linux::Linux;
use nodeward_linux::interference::TestThread;
use nodeward_machine::Machine;
use nodeward_machine::conformance::conditions::{
    self, CannotPrepare, Condition, PreparedProcess, ProcessPreparer,
};
use nodeward_machine::conformance::thread_records::{self, ThreadRecordFixture};
use nodeward_machine::conformance::watch;
use nodeward_machine::conformance::{ALL, MoveFixture};
use nodeward_model::{NodeId, Pid, Range};
use rustix::process::{Signal, kill_process};

use crate::case_outcome::{CaseFn, CaseOutcome, CaseSkipped};
use crate::guest::UNPRIVILEGED_USER;
use crate::load::LoadProcess;

pub const CASES: [(&str, CaseFn); 5] = [
    ("conformance", conformance),
    ("conformance_without_privilege", without_privilege),
    ("conformance_in_every_state", in_every_state),
    ("conformance_of_a_full_node", of_a_full_node),
    ("conformance_of_looks_and_nudges", of_looks_and_nudges),
];

/// Number of pinned pages in states with pinned pages.
const PINNED: u64 = 16;
/// Maximum size of a node that is filled: the case belongs on a machine with a small node.
const SMALL_BYTES: u64 = 192 << 20;

/// Goal: this kernel behaves as the fake machine.
fn conformance() -> CaseOutcome {
    let load = LoadProcess::start("--node 0 --size 8MiB");
    let machine = Linux::open();
    println!("as far as this kernel goes: {:?}", machine.capabilities());
    for (name, body) in ALL {
        println!("body {name}");
        body(&fixture(&machine, &load, 0));
    }
    load.end();
    Ok(())
}

/// Goal: the same holds where frame numbers are hidden and only our own pages may be moved.
fn without_privilege() -> CaseOutcome {
    let us = std::env::current_exe().expect("we have a path");
    let status =
        Command::new(us).arg("conformance").uid(UNPRIVILEGED_USER).gid(UNPRIVILEGED_USER).status();
    assert!(status.expect("we start ourselves").success());
    Ok(())
}

/// Goal: pages, processes and nodes in every state that this guest can produce behave as on the
/// simulated machine.
fn in_every_state() -> CaseOutcome {
    let scenes = LinuxPreparer { machine: Linux::open() };
    for (name, body) in conditions::ALL {
        match body(&scenes) {
            Ok(()) => println!("body {name}"),
            Err(CannotPrepare(why)) => println!("body {name}: skipped: {why}"),
        }
    }
    Ok(())
}

/// Goal: the same of a node that fills up. (Node 1 is small there.)
fn of_a_full_node() -> CaseOutcome {
    let scenes = LinuxPreparer { machine: Linux::open() };
    let name = "a_full_node_takes_what_it_can";
    let found = conditions::ALL.into_iter().find(|(body, _)| *body == name);
    let (_, body) = found.expect("there is such a body");
    body(&scenes).map_err(|CannotPrepare(why)| CaseSkipped(why))
}

/// Goal: samples of this process are correct, its thread follows nudges from node to node, and the
/// kernel tells root which thread starts which.
fn of_looks_and_nudges() -> CaseOutcome {
    let machine = Linux::open();
    let sets = watch::two_cpu_sets(&machine);
    let sets = sets.ok_or_else(|| CaseSkipped("there is only one CPU".to_owned()))?;
    let worker = TestThread::start(true).expect("a thread starts");
    let name = std::fs::read("/proc/self/comm").expect("we have a name");
    let stage = watch::WatchFixture {
        machine: &machine,
        pid: Pid::new(std::process::id()).expect("a pid"),
        name: name.trim_ascii_end().into(),
        busy_tid: worker.tid,
        cpu_sets: sets,
        non_file_bytes_min: machine.page_bytes(),
    };
    for (name, body) in watch::ALL {
        println!("body {name}");
        body(&stage);
    }
    let fixture = ThreadRecordFixture {
        machine: &machine,
        pid: stage.pid,
        starter: own_tid(),
        start_chain: &start_chain,
    };
    for (name, body) in thread_records::ALL {
        println!("body {name}");
        body(&fixture);
    }
    Ok(())
}

fn own_tid() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs()
}

/// Starts a thread that starts another one, and waits for both.
fn start_chain() -> [u32; 2] {
    let one = || (own_tid(), thread::spawn(own_tid).join().expect("it ends"));
    let (one, two) = thread::spawn(one).join().expect("it ends");
    [one, two]
}

/// Returns the memory of a load without its first pages.
fn fixture<'a>(machine: &'a Linux, load: &LoadProcess, without: u64) -> MoveFixture<'a> {
    let range = load.range();
    MoveFixture {
        machine,
        pid: pid(load),
        range: Range::new(range.start + without * machine.page_bytes(), range.end),
        source: NodeId(0),
        destination: NodeId(1),
    }
}

fn pid(load: &LoadProcess) -> Pid {
    Pid::new(load.pid()).expect("a pid")
}

struct LinuxPreparer {
    machine: Linux,
}

struct PreparedLoad<'a> {
    machine: &'a Linux,
    load: LoadProcess,
    state: Condition,
}

impl ProcessPreparer for LinuxPreparer {
    fn prepare(&self, state: Condition) -> Result<Box<dyn PreparedProcess + '_>, CannotPrepare> {
        let arguments = match state {
            Condition::Pinned => format!("--size 2MiB --pin {PINNED}"),
            Condition::Shared => "--size 2MiB --fork 1 --threads 0".to_owned(),
            Condition::Huge => "--size 8MiB --kind thp --threads 0".to_owned(),
            Condition::NodeNearlyFull => self.more_than_fits()?,
            Condition::Exiting => "--size 2MiB".to_owned(),
        };
        let load = LoadProcess::start(&format!("--node 0 {arguments}"));
        if state == Condition::Huge && load.ready.huge_bytes != Some(8 << 20) {
            return Err(CannotPrepare(format!(
                "huge pages: {:?} bytes of 8 MiB",
                load.ready.huge_bytes
            )));
        }
        Ok(Box::new(PreparedLoad { machine: &self.machine, load, state }))
    }
}

impl LinuxPreparer {
    fn more_than_fits(&self) -> Result<String, CannotPrepare> {
        let topology = self.machine.topology().expect("the machine tells its topology");
        let away = &topology.nodes[&NodeId(1)];
        match away.memory_bytes.filter(|&bytes| bytes <= SMALL_BYTES) {
            Some(bytes) => Ok(format!("--size {}MiB --threads 0", bytes >> 20)),
            None => Err(CannotPrepare("node 1 is large here".to_owned())),
        }
    }
}

impl PreparedProcess for PreparedLoad<'_> {
    /// The load pins its first page, too, when it pins any; that one is left out.
    fn fixture(&self) -> MoveFixture<'_> {
        fixture(self.machine, &self.load, u64::from(self.state == Condition::Pinned))
    }

    fn pinned_addresses(&self) -> Vec<u64> {
        let bytes = (self.load.range().end - self.load.range().start) / PINNED;
        (1..PINNED).map(|n| self.load.range().start + n * bytes).collect()
    }

    /// In the middle of moves of half a millisecond and more.
    fn exit_soon(&self) {
        let pid = rustix::process::Pid::from_raw(self.load.pid().cast_signed()).expect("a pid");
        thread::spawn(move || {
            thread::sleep(Duration::from_millis(20));
            kill_process(pid, Signal::KILL).expect("our child can be killed");
        });
    }
}
