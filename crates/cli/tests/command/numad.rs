//! `numad` on this machine, as libvirt calls it.

use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, Output};

use nodeward_linux::test_wait::wait_until;
use rustix::fs::{OFlags, fcntl_setfl};

use crate::outcome::{NODEWARD, assert_failure, success};

fn numad(words: &[&str]) -> Output {
    Command::new(NODEWARD).arg0("/usr/bin/numad").args(words).output().unwrap()
}

/// Goal: the answer is one line with a list of nodes that exist, and nothing else.
#[test]
fn the_answer_is_a_list_of_nodes() {
    let online = std::fs::read_to_string("/sys/devices/system/node/online");
    let online = online.unwrap_or_else(|_| "0".to_owned());
    let online: nodeward_model::Nodemask = online.trim().parse().unwrap();
    for words in
        [&["-w", "1:16"][..], &["-w", "2"], &["-d", "-i", "0", "-w4:2048"], &["-w", "9999"]]
    {
        let told = success(words, numad(words));
        let nodes: nodeward_model::Nodemask = told.strip_suffix('\n').unwrap().parse().unwrap();
        assert!(!nodes.is_empty() && nodes.without(&online).is_empty(), "{words:?}: {told}");
    }
}

/// Goal: settings that keep nodes empty are read and checked against the machine, in one line.
#[test]
fn nodes_that_are_kept_empty_are_checked() {
    let keeping = |nodes| {
        let mut command = Command::new(NODEWARD);
        command.arg0("/usr/bin/numad").args(["-w", "1"]);
        command.env("NODEWARD_BALANCE_KEEP_EMPTY", nodes).output().unwrap()
    };
    let refused = "numad: balance.keep-empty names node 1000; the nodes here are";
    let told = assert_failure(["-w", "1"], &keeping("1000"), 1, &[refused]);
    assert_eq!(told.lines().count(), 1, "{told}");
    success("-w 1", keeping("none"));
}

/// Goal: a running balancer does not take it for the daemon: called by a link of that name, it has
/// another name before it answers. (A full pipe keeps it from answering until its name was read.)
#[test]
fn it_is_no_rival_of_the_balancer() {
    let folder = tempfile::tempdir().unwrap();
    let link = folder.path().join("numad");
    std::os::unix::fs::symlink(NODEWARD, &link).unwrap();
    let (mut reader, mut writer) = std::io::pipe().unwrap();
    fcntl_setfl(&writer, OFlags::NONBLOCK).unwrap();
    while writer.write(&[b' '; 4096]).is_ok() {}
    fcntl_setfl(&writer, OFlags::empty()).unwrap();
    let mut child = Command::new(&link).args(["-w", "1"]).stdout(writer).spawn().unwrap();
    let comm = format!("/proc/{}/comm", child.id());
    wait_until("it has its own name", || std::fs::read_to_string(&comm).unwrap() == "nodeward\n");
    let mut told = Vec::new();
    reader.read_to_end(&mut told).unwrap();
    assert!(child.wait().unwrap().success());
}

/// Goal: what only the daemon could do is refused in one line, with what to use instead.
#[test]
fn the_daemon_is_refused() {
    for words in [&[][..], &["-i", "15"], &["-p", "1"]] {
        let told = assert_failure(words, &numad(words), 1, &["numad: ", "nodeward balance"]);
        assert_eq!(told.lines().count(), 1, "{told}");
    }
    assert!(success("-h", numad(&["-h"])).contains("usage: numad"));
    assert!(success("-V", numad(&["-V"])).contains(env!("CARGO_PKG_VERSION")));
}
