//! Invalid input, or a name without a process, ends with its code and one clear line, on any
//! machine.

use std::process::{Command, Output};

use nodeward_linux::test_wait::wait_until;

use crate::outcome::{NODEWARD, assert_failure};

/// A pid that Linux does not assign: its pids are smaller.
const NO_SUCH_PID: &str = "4194304";

fn run(words: &[&str]) -> Output {
    Command::new(NODEWARD).arg("move").args(words).output().unwrap()
}

/// Checks the code, that standard output is empty, and that one line on stderr has these words.
fn assert_refused(words: &[&str], code: i32, told: &[&str]) {
    let output = run(words);
    let stderr = assert_failure(words, &output, code, told);
    assert!(output.stdout.is_empty(), "{words:?}");
    assert_eq!(stderr.lines().count(), 1, "{words:?}: {stderr}");
}

/// Checks that the command line itself is refused, with usage.
fn assert_usage_error(words: &[&str], told: &str) {
    assert_failure(words, &run(words), 2, &[told]);
}

/// Goal: only a number from 1 to the limit is accepted as a process id.
#[test]
fn what_is_no_process_id() {
    for pid in ["0", "-1", "-17", "abc", "1.5", "0x10", "4194305", "99999999999999999999", ""] {
        assert_refused(&[pid, "0", "0"], 2, &["is not a process id", "1 to 4194304"]);
    }
}

/// Goal: a process that does not exist is reported as gone, also among others that exist.
#[test]
fn a_process_that_is_not_there() {
    assert_refused(&[NO_SUCH_PID, "0", "0"], 5, &["process 4194304 is gone"]);
    let us = std::process::id().to_string();
    assert_refused(&[&us, NO_SUCH_PID, "0", "0"], 5, &["process 4194304 is gone"]);
}

/// Goal: a process that has ended is reported as gone, even before it has been waited for.
#[test]
fn a_process_that_was_not_waited_for() {
    let mut child = Command::new("true").spawn().unwrap();
    let pid = child.id().to_string();
    let stat = format!("/proc/{pid}/stat");
    wait_until("it has ended", || std::fs::read_to_string(&stat).unwrap().contains(") Z "));
    assert_refused(&[&pid, "0", "0"], 5, &["is gone"]);
    child.wait().unwrap();
}

/// Goal: a thread id is not accepted as a process id; the message says what to name instead.
#[test]
fn a_thread_is_no_process() {
    let (tell, told) = std::sync::mpsc::channel();
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || {
        tell.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
        ended.recv().unwrap_err();
    });
    let tid = told.recv().unwrap().to_string();
    assert_refused(&[&tid, "0", "0"], 3, &["is a thread", "Tgid"]);
    drop(end);
    thread.join().unwrap();
}

/// Goal: node strings that libnuma refuses are refused, and the message says which of the two is
/// invalid.
#[test]
fn malformed_node_strings() {
    let us = std::process::id().to_string();
    for odd in ["x", "0-", "0--1", "0,x", "!x", "0;1", "1e3"] {
        assert_refused(&[&us, odd, "0"], 2, &[&format!("FROM is '{odd}'")]);
        assert_refused(&[&us, "0", odd], 2, &[&format!("TO is '{odd}'")]);
    }
}

/// Goal: a node that no machine has is refused.
#[test]
fn a_node_that_is_not_there() {
    let us = std::process::id().to_string();
    assert_refused(&[&us, "1000000", "0"], 2, &["FROM is '1000000'"]);
    assert_refused(&[&us, "0", "0,1000000"], 2, &["TO is '0,1000000'"]);
}

/// Goal: a FROM that is contained in TO is refused with what may have been meant. This machine need
/// not have the nodes of such a TO; a simulated one does.
#[test]
fn nodes_that_all_stay() {
    let sim = ["--machine", "sim:two-socket"];
    let told = ["'0 0-1' moves nothing", "'0 1' to move to 1", "nodeward balance"];
    assert_refused(&[&sim[..], &["1000", "0", "0,1"]].concat(), 2, &told);
    assert_refused(
        &[&sim[..], &["1000", "1", "all"]].concat(),
        2,
        &["'1 0-1' moves nothing", "'1 0'"],
    );
}

/// Goal: names and groups without processes are reported as typed.
#[test]
fn nobody_of_that_name() {
    assert_refused(&["--name", "no-such-process", "0", "0"], 2, &["'no-such-process'"]);
    assert_refused(&["--cgroup", "/no/such/group", "0", "0"], 2, &["/no/such/group"]);
}

/// Goal: an incomplete or contradictory command line is refused before anything is done.
#[test]
fn misuse() {
    assert_usage_error(&[], "PID... FROM TO");
    assert_usage_error(&["1"], "FROM");
    assert_usage_error(&["0", "1"], "no process is named");
    assert_usage_error(&["1", "0", "0", "--only", "nonsense"], "nonsense");
    assert_usage_error(&["1", "0", "0", "--only", "heap", "--exclude", "stack"], "--exclude");
    for range in ["10", "20-10", "x-y", "10-10"] {
        assert_usage_error(&["1", "0", "0", "--range", range], "START-END");
    }
    for (flag, value) in
        [("--jobs", "0"), ("--jobs", "-1"), ("--rate", "fast"), ("--rate", "0"), ("--stall", "1")]
    {
        assert_usage_error(&["1", "0", "0", &format!("{flag}={value}")], flag);
    }
}

/// Goal: with --file no other option may select memory, and the path must exist.
#[test]
fn files_that_cannot_be_meant() {
    let missing = "/no/such/file";
    assert_refused(
        &["--file", missing, "0"],
        2,
        &["'/no/such/file' does not exist", "check the path"],
    );
    assert_refused(&["--file", "/etc/passwd/x", "0"], 2, &["'/etc/passwd/x' does not exist"]);
    assert_refused(&["--file", "/dev/null", "0"], 2, &["'/dev/null' is no file or directory"]);
    assert_refused(&["--file", "/", "7", "0", "1"], 2, &["there is no PID", "'7 0 1'"]);
    assert_refused(&["--file", "/", "1000000"], 2, &["TO is '1000000'"]);
    assert_refused(&["--file", "/", "x", "0"], 2, &["FROM is 'x'"]);
    assert_usage_error(&["--file", "/"], "FROM TO");
    for other in [["--name", "x"], ["--cgroup", "x"], ["--only", "heap"], ["--range", "1000-2000"]]
    {
        assert_usage_error(&[&["--file", "/"], &other[..], &["0"]].concat(), "--file");
    }
}

/// Goal: counts that name a node that is not here are refused, not taken for pages that are at
/// home.
#[test]
fn counts_of_a_node_that_is_not_here() {
    let folder = tempfile::tempdir().unwrap();
    let counts = folder.path().join("counts");
    std::fs::write(&counts, "7f0000000000 1000 12\n").unwrap();
    let us = std::process::id().to_string();
    let words = [&us, "--hot", counts.to_str().unwrap(), "--dry-run"];
    let told = ["as counts\n", "12 accesses are from node 1000", "nodes are "];
    assert_failure(words, &run(&words), 2, &told);
}

/// Goal: addresses at which nothing is mapped are refused, not moved with success.
#[test]
fn a_range_without_memory() {
    let us = std::process::id().to_string();
    assert_refused(&[&us, "0", "0", "--range", "1000-2000"], 2, &["in 1000-2000", "/maps"]);
    assert_usage_error(&[&us, "0", "0", "--range", "2000-1000"], "END is not above START");
}
