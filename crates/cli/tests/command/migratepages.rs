//! `migratepages` on this machine; the lab compares it with numactl's on two nodes.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use crate::outcome::NODEWARD;

fn migratepages(pid: u32) -> Output {
    let mut command = Command::new(NODEWARD);
    command.arg0("migratepages").args([&pid.to_string(), "0", "0"]).output().unwrap()
}

/// Goal: a process that has ended and was not waited for exists without memory, as for numactl's
/// program; once it has been waited for it does not exist.
#[test]
fn a_zombie_is_there() {
    let mut child = Command::new("true").spawn().unwrap();
    let end = Instant::now() + Duration::from_secs(60);
    let stat = || fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
    while !stat().contains(") Z ") {
        assert!(Instant::now() < end, "{}", stat());
        thread::sleep(Duration::from_millis(10));
    }
    let told = migratepages(child.id());
    assert_eq!(told.status.code(), Some(1));
    let first = |told: &Output| {
        String::from_utf8_lossy(&told.stderr).lines().next().unwrap_or_default().to_owned()
    };
    assert_eq!(first(&told), "migrate_pages: Invalid argument");
    child.wait().unwrap();
    assert_eq!(first(&migratepages(child.id())), "migrate_pages: No such process");
}
