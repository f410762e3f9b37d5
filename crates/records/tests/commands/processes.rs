//! Goal: the guarantees between threads hold between commands, and a command may be killed at any
//! time.
//!
//! The tests start their own program again with one test selected, which then plays the other part.

use std::collections::BTreeSet;
use std::env;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nodeward_records::ledger::{LedgerStore, OperationId, OperationState, StoreLimits};

use crate::support::{end, header, id, runs, store};

/// Tells a test that it plays the other part, in this directory.
const PART: &str = "NODEWARD_WIRE_TEST_DIR";

/// Printed when a part has reached its end inside a mount.
pub const RAN_INSIDE: &str = "ran inside the mount";

fn part() -> Option<PathBuf> {
    env::var_os(PART).map(PathBuf::from)
}

/// Returns the command line of this program with one test.
fn own_command(test: &str) -> Vec<String> {
    let program = env::current_exe().unwrap().into_os_string().into_string().unwrap();
    [&program, "--exact", test, "--nocapture"].map(str::to_owned).into()
}

fn start_child(test: &str, dir: &Path) -> Child {
    let words = own_command(test);
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).env(PART, dir).stdin(Stdio::piped()).stdout(Stdio::piped());
    command.spawn().unwrap()
}

fn store_in(dir: &Path) -> LedgerStore {
    LedgerStore::new(dir.to_owned(), StoreLimits::default())
}

#[test]
fn commands_at_once_get_different_numbers() {
    let rounds = 20;
    if let Some(dir) = part() {
        for _ in 0..rounds {
            let writer = store_in(&dir).begin(&header(1)).unwrap();
            println!("\nid {}", writer.id());
            writer.end(&end()).unwrap();
        }
        return;
    }
    let (dir, store) = store();
    let name = "processes::commands_at_once_get_different_numbers";
    let children: Vec<Child> = (0..4).map(|_| start_child(name, dir.path())).collect();
    let mut seen = BTreeSet::new();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        let text = String::from_utf8(output.stdout).unwrap();
        let ids = text.lines().filter_map(|line| line.strip_prefix("id "));
        seen.extend(ids.map(|id| id.parse::<OperationId>().unwrap()));
    }
    assert_eq!(seen, (1..=4 * rounds).map(id).collect(), "each number once");
    assert_eq!(store.list().unwrap().len(), 4 * rounds as usize);
}

/// Goal: after kill -9, everything that was settled is there, at most the one intent of that moment
/// is open, and the operation is reported as interrupted.
#[test]
fn a_killed_command() {
    let page = |number: u64| runs(&[(2 * number, 1, 0, 1)]);
    if let Some(dir) = part() {
        let mut writer = store_in(&dir).begin(&header(1)).unwrap();
        for number in 0..5000 {
            let ticket = writer.intend(0, page(number)).unwrap();
            writer.settle(ticket, Some(page(number))).unwrap();
        }
        // The process that will kill this one holds the other end.
        std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
        return;
    }
    let (dir, store) = store();
    for (wanted, pages) in (1..).zip([1, 100, 1000]) {
        let mut child = start_child("processes::a_killed_command", dir.path());
        while store.read(id(wanted)).map_or(0, |operation| operation.moved_pages()) < pages {
            assert_eq!(child.try_wait().unwrap(), None, "it works until it is killed");
        }
        assert_eq!(store.read(id(wanted)).unwrap().state, OperationState::Running);
        child.kill().unwrap();
        child.wait().unwrap();
        let operation = store.read(id(wanted)).unwrap();
        assert_eq!((&operation.state, &operation.damage), (&OperationState::Interrupted, &None));
        let moved: Vec<u64> = operation.processes[0].moved.iter().map(|run| run.start).collect();
        let count = moved.len() as u64;
        assert!(count >= pages && operation.open_pages() <= 1);
        assert_eq!(moved, (0..count).map(|number| 2 * number * 4096).collect::<Vec<_>>());
        let open = operation.processes[0].open.iter().next();
        assert!(open.is_none_or(|run| run.start == 2 * count * 4096), "the next in turn");
    }
}

/// Runs a part of a test with a small file system of its own for the state directory. The part gets
/// its directory and a function that remounts it with other options.
pub fn run_in_mount(test: &str, run: impl FnOnce(&Path, &dyn Fn(&str))) {
    if let Some(dir) = part() {
        let remount = |options: &str| {
            let options = format!("remount,{options}");
            // With the source named, mount(8) does not repeat the owner of the first mount, who has
            // another id in this namespace.
            let mount = Command::new("mount").args(["-o", &options, "none"]).arg(&dir).status();
            assert!(mount.unwrap().success());
        };
        return run(&dir, &remount);
    }
    let (dir, _) = store();
    let script = "mount -t tmpfs -o size=64k none \"$0\" || exit 77; \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--map-root-user", "--mount", "sh", "-c", script]).arg(dir.path());
    command.args(own_command(test)).env(PART, dir.path()).stdout(Stdio::piped());
    let Ok(mut child) = command.spawn() else {
        println!("skipped: there is no unshare (package util-linux)");
        return;
    };
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    let status = child.wait().unwrap();
    match text.contains(RAN_INSIDE) {
        true => assert!(status.success()),
        false if text.contains("running 1 test") => panic!("{text}"),
        false => println!("skipped: no file system can be mounted here ({status})"),
    }
}
