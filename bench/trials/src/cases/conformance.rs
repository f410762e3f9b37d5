//! The conformance tests that every machine must pass, on this kernel.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::thread;
use std::time::Duration;

use nodeward_linux::Linux;
use nodeward_linux::trouble::Worker;
use nodeward_machine::Machine;
use nodeward_machine::conformance::scenes::{self, Cannot, Scene, Scenes, State};
use nodeward_machine::conformance::watching;
use nodeward_machine::conformance::{ALL, Stage};
use nodeward_model::{NodeId, Pid, Range};
use rustix::process::{Signal, kill_process};

use crate::guest::SOMEBODY;
use crate::load::Load;
use crate::{Body, Ran, Skipped};

pub const CASES: [(&str, Body); 5] = [
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
fn conformance() -> Ran {
    let load = Load::start("--node 0 --size 8MiB");
    let machine = Linux::open();
    println!("as far as this kernel goes: {:?}", machine.capabilities());
    for (name, body) in ALL {
        println!("body {name}");
        body(&stage(&machine, &load, 0));
    }
    load.done();
    Ok(())
}

/// Goal: the same holds where frame numbers are hidden and only our own pages may be moved.
fn without_privilege() -> Ran {
    let us = std::env::current_exe().expect("we have a path");
    let status = Command::new(us).arg("conformance").uid(SOMEBODY).gid(SOMEBODY).status();
    assert!(status.expect("we start ourselves").success());
    Ok(())
}

/// Goal: pages, processes and nodes in every state that this guest can produce behave as on the
/// simulated machine.
fn in_every_state() -> Ran {
    let scenes = LinuxScenes { machine: Linux::open() };
    for (name, body) in scenes::ALL {
        match body(&scenes) {
            Ok(()) => println!("body {name}"),
            Err(Cannot(why)) => println!("body {name}: skipped: {why}"),
        }
    }
    Ok(())
}

/// Goal: the same of a node that fills up. (Node 1 is small there.)
fn of_a_full_node() -> Ran {
    let scenes = LinuxScenes { machine: Linux::open() };
    let name = "a_full_node_takes_what_it_can";
    let found = scenes::ALL.into_iter().find(|(body, _)| *body == name);
    let (_, body) = found.expect("there is such a body");
    body(&scenes).map_err(|Cannot(why)| Skipped(why))
}

/// Goal: samples of this process are correct, and its thread follows nudges from node to node.
fn of_looks_and_nudges() -> Ran {
    let machine = Linux::open();
    let sets = watching::two_sets(&machine);
    let sets = sets.ok_or_else(|| Skipped("there is only one CPU".to_owned()))?;
    let worker = Worker::start(true).expect("a thread starts");
    let name = std::fs::read("/proc/self/comm").expect("we have a name");
    let stage = watching::Stage {
        machine: &machine,
        pid: Pid::new(std::process::id()).expect("a pid"),
        name: name.trim_ascii_end().into(),
        busy: worker.tid,
        sets,
        own_bytes_min: machine.page_bytes(),
    };
    for (name, body) in watching::ALL {
        println!("body {name}");
        body(&stage);
    }
    Ok(())
}

/// Returns the memory of a load without its first pages.
fn stage<'a>(machine: &'a Linux, load: &Load, without: u64) -> Stage<'a> {
    let range = load.range();
    Stage {
        machine,
        pid: pid(load),
        range: Range::new(range.start + without * machine.page_bytes(), range.end),
        home: NodeId(0),
        away: NodeId(1),
    }
}

fn pid(load: &Load) -> Pid {
    Pid::new(load.pid()).expect("a pid")
}

struct LinuxScenes {
    machine: Linux,
}

struct LoadScene<'a> {
    machine: &'a Linux,
    load: Load,
    state: State,
}

impl Scenes for LinuxScenes {
    fn set(&self, state: State) -> Result<Box<dyn Scene + '_>, Cannot> {
        let arguments = match state {
            State::Pinned => format!("--size 2MiB --pin {PINNED}"),
            State::Shared => "--size 2MiB --fork 1 --threads 0".to_owned(),
            State::Huge => "--size 8MiB --kind thp --threads 0".to_owned(),
            State::Crowded => self.more_than_fits()?,
            State::Mortal => "--size 2MiB".to_owned(),
        };
        let load = Load::start(&format!("--node 0 {arguments}"));
        if state == State::Huge && load.ready.huge_bytes != Some(8 << 20) {
            return Err(Cannot(format!("huge pages: {:?} bytes of 8 MiB", load.ready.huge_bytes)));
        }
        Ok(Box::new(LoadScene { machine: &self.machine, load, state }))
    }
}

impl LinuxScenes {
    fn more_than_fits(&self) -> Result<String, Cannot> {
        let topology = self.machine.topology().expect("the machine tells its topology");
        let away = &topology.nodes[&NodeId(1)];
        match away.memory_bytes.filter(|&bytes| bytes <= SMALL_BYTES) {
            Some(bytes) => Ok(format!("--size {}MiB --threads 0", bytes >> 20)),
            None => Err(Cannot("node 1 is large here".to_owned())),
        }
    }
}

impl Scene for LoadScene<'_> {
    /// The load pins its first page, too, when it pins any; that one is left out.
    fn stage(&self) -> Stage<'_> {
        stage(self.machine, &self.load, u64::from(self.state == State::Pinned))
    }

    fn held(&self) -> Vec<u64> {
        let bytes = (self.load.range().end - self.load.range().start) / PINNED;
        (1..PINNED).map(|n| self.load.range().start + n * bytes).collect()
    }

    /// In the middle of moves of half a millisecond and more.
    fn end_soon(&self) {
        let pid = rustix::process::Pid::from_raw(self.load.pid().cast_signed()).expect("a pid");
        thread::spawn(move || {
            thread::sleep(Duration::from_millis(20));
            kill_process(pid, Signal::KILL).expect("our child can be killed");
        });
    }
}
