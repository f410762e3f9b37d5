//! The bodies that every machine must pass, on this kernel.

use std::os::unix::process::CommandExt;
use std::process::Command;

use nodeward_linux::Linux;
use nodeward_machine::Machine;
use nodeward_machine::conformance::{ALL, Stage};
use nodeward_model::{NodeId, Pid, Range};

use crate::guest::SOMEBODY;
use crate::load::Load;
use crate::{Body, Ran};

pub const CASES: [(&str, Body); 2] =
    [("conformance", conformance), ("conformance_without_privilege", without_privilege)];

/// Goal: this kernel is what the machine on paper stands for.
fn conformance() -> Ran {
    let load = Load::start("--node 0 --size 8MiB");
    let machine = Linux::open();
    println!("as far as this kernel goes: {:?}", machine.capabilities());
    let range = load.range();
    let stage = Stage {
        machine: &machine,
        pid: Pid::new(load.pid()).expect("a pid"),
        range: Range::new(range.start, range.end),
        home: NodeId(0),
        away: NodeId(1),
    };
    for (name, body) in ALL {
        println!("body {name}");
        body(&stage);
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
