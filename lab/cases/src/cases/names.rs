//! Processes whose names, and those of their mapped files, are bytes that need not be UTF-8.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::process::Command;

use nodeward_linux::test_wait::wait_until;

use crate::balancer::{BalancerProcess, StateDir, disable_numa_balancing};
use crate::case_outcome::{CaseFn, CaseOutcome};
use crate::guest::pin_this_thread;
use crate::load::LoadProcess;
use crate::nodeward::{CommandOutput, MoveJson, run_command};

pub const CASES: [(&str, CaseFn); 2] =
    [("name_of_any_bytes_moves", moves), ("name_of_any_bytes_comes_home", comes_home)];

/// Fourteen of the fifteen bytes that the kernel keeps: a colour, a line feed and a journald level,
/// a bell, an invalid UTF-8 byte, a backslash and a blank.
const NAME: &[u8] = b"\x1b[31m\n<0>\x07\xff\\x ";
/// The same in escaped form.
const SHOWN: &str = r"\x1b[31m\x0a<0>\x07\xff\\x ";

/// Starts a load that has this name, and maps the file of this name that it is run from.
fn load(words: &str) -> LoadProcess {
    let program = [b"/tmp/", NAME].concat();
    let program = OsStr::from_bytes(&program);
    fs::copy("/bin/nodeward-load", program).expect("the load can be copied");
    let load = LoadProcess::start_through(program, words);
    let comm = fs::read(format!("/proc/{}/comm", load.pid())).expect("it runs");
    assert_eq!(comm.strip_suffix(b"\n"), Some(NAME), "the kernel calls it so");
    load
}

/// Runs a command with this name after its words.
fn named(mut command: Command, more: &[&str]) -> CommandOutput {
    run_command(command.arg(OsStr::from_bytes(NAME)).args(more))
}

/// Returns the nodes of its pages.
fn all_on(load: &LoadProcess) -> Vec<u32> {
    load.pages_by_node().into_keys().collect()
}

/// Goal: such a process moves whole by its pid and by its name, with its file, and back by an undo;
/// it is shown escaped.
fn moves() -> CaseOutcome {
    let place = StateDir::new("names");
    let load = load("--node 0 --size 8MiB");
    let by_name = named(place.command("move --json --quiet --name"), &["0", "1"]);
    let there: MoveJson = by_name.report_after_exit(0);
    assert_eq!(there.processes.len(), 1, "{there:?}");
    assert!(there.account.moved >= load.ready.pages, "{there:?}");
    assert_eq!(all_on(&load), [1], "also of its file");
    let back = format!("move --json --quiet {} 1 0", load.pid());
    run_command(&mut place.command(&back)).report_after_exit(0);
    assert_eq!(all_on(&load), [0]);
    let ledger = run_command(&mut place.command("ledger 1"));
    assert!(ledger.code == 0 && ledger.stdout.contains(SHOWN), "{ledger:?}");
    run_command(&mut place.command("undo --json --quiet 2")).report_after_exit(0);
    assert_eq!(all_on(&load), [1]);
    load.end();
    Ok(())
}

/// Goal: a balancer with such a name as its argument shows it escaped in its table, and brings the
/// process's memory home.
fn comes_home() -> CaseOutcome {
    disable_numa_balancing()?;
    let place = StateDir::new("names-home");
    pin_this_thread(&[1]);
    let load = load("--node 0 --unbind --size 8MiB");
    pin_this_thread(&[0, 1]);
    let row = |line: &str| line.contains(&load.pid().to_string()) && line.contains(SHOWN);
    // On a busy host a program may do nothing for as long as this command looks.
    wait_until("the table has the program", || {
        let table = named(place.command("balance --once --dry-run --name"), &[]);
        assert_eq!(table.code, 0, "{table:?}");
        assert!(!table.stdout.contains(['\x1b', '\x07']), "{table:?}");
        table.stdout.lines().any(row)
    });
    let mut balance = BalancerProcess::spawn(place.balance("--name").arg(OsStr::from_bytes(NAME)));
    assert_eq!(balance.wait_until_home(&load), 1);
    balance.stop().assert_success();
    load.end();
    Ok(())
}
