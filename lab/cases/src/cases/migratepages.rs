//! Called as `migratepages`, nodeward behaves as numactl's program: both are run on the same cases.

use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use crate::case_outcome::{CaseFn, CaseOutcome};
use crate::guest::{UNPRIVILEGED_USER, read, wait_until};
use crate::load::LoadProcess;
use crate::nodeward::{CommandOutput, move_load, run_command};
use crate::numa_maps::{PagesByNode, pages_within};

pub const CASES: [(&str, CaseFn); 2] =
    [("drop_in_agrees", agrees), ("drop_in_tells_what_stayed", tells_what_stayed)];

const THEIRS: &str = "migratepages";
const OURS: &str = "/tmp/drop-in/migratepages";
const ROOT: u32 = 0;

// Arguments; `PID` and `TID` stand for the load and one of its threads, `ENDED` for a process that
// was not waited for, `-` for an empty word.

/// Rows whose result may depend on the owner of the process.
const ROWS: [&str; 12] = [
    "PID 0 1",
    "TID 0 1",
    "PID 0,1 1",
    "PID all 1",
    "PID 0-1 1,0",
    "PID !1 1",
    "PID +0 +1",
    "PID 0 0",
    "PID 0 7",
    "PID 0-64 1",
    "ENDED 0 1",
    "ENDED 0 7",
];

/// Rows whose result does not, because of an invalid argument, or because no process is named.
const ROWS_OF_NO_OWNER: [&str; 16] = [
    "PID - 1",
    "PID 0 -",
    "PID x 1",
    "PID 0 1x",
    "PIDx 0 1",
    "abc 0 1",
    "- 0 1",
    "4000000 0 1",
    "2 0 1",
    "-- -5 0 1",
    "-5 0 1",
    "PID 0",
    "PID 0 1 1",
    "PID 0 1 -x",
    "--help",
    "--version",
];

/// The observable result of a run.
#[derive(Debug, PartialEq, Eq)]
struct CommandEffect {
    code: i32,
    stdout: String,
    stderr: Vec<String>,
    nodes: PagesByNode,
}

/// Goal: exit code, both outputs and the places of pages afterwards are the same, for root and for
/// others. Additions of libnuma's own, and of nodeward's, are left out.
fn agrees() -> CaseOutcome {
    install();
    for user in [ROOT, UNPRIVILEGED_USER] {
        for owner in [ROOT, UNPRIVILEGED_USER] {
            let load = LoadProcess::start_as(owner, "--node 0 --size 2MiB --threads 0");
            let mut ended = start_zombie(owner);
            let no_owner: &[&str] = if user == owner { &ROWS_OF_NO_OWNER } else { &[] };
            for row in ROWS.iter().chain(no_owner) {
                let row = row.replace("ENDED", &ended.id().to_string());
                let theirs = observe_effect(&call(THEIRS, &row, &load, user), &load);
                let ours = observe_effect(&call(OURS, &row, &load, user), &load);
                assert_eq!(ours, theirs, "{row} by {user} on a process of {owner}");
            }
            ended.wait().expect("it has ended");
            load.end();
        }
    }
    Ok(())
}

/// Goal: where numactl is silent about pages that stayed, nodeward reports them, with the same exit
/// code.
fn tells_what_stayed() -> CaseOutcome {
    install();
    let load = LoadProcess::start("--node 0 --size 2MiB --threads 0 --pin 4");
    let theirs = call(THEIRS, "PID 0 1", &load, ROOT);
    assert_eq!((theirs.code, theirs.stderr.as_str()), (0, ""), "{theirs:?}");
    let theirs = observe_effect(&theirs, &load);
    let ours = call(OURS, "PID 0 1", &load, ROOT);
    assert!(ours.stderr.contains("stayed behind: 4 pinned"), "{ours:?}");
    assert_eq!(observe_effect(&ours, &load), theirs);
    load.end();
    Ok(())
}

fn install() {
    std::fs::create_dir_all("/tmp/drop-in").expect("a directory can be made");
    // A second case finds it there.
    let _ = symlink("/bin/nodeward", OURS);
}

/// Starts a process that ends and is not waited for.
fn start_zombie(owner: u32) -> Child {
    let child = Command::new("true").uid(owner).gid(owner).spawn().expect("true starts");
    let stat = format!("/proc/{}/stat", child.id());
    wait_until("it has ended", || read(&stat).contains(") Z "));
    child
}

fn call(program: &str, row: &str, load: &LoadProcess, user: u32) -> CommandOutput {
    let (pid, tid) = (load.pid().to_string(), load.other_thread());
    let words = row.split(' ').map(|word| match word {
        "-" => String::new(),
        word => word.replace("PID", &pid).replace("TID", &tid),
    });
    run_command(Command::new(program).arg0(THEIRS).args(words).uid(user).gid(user))
}

/// Returns the result, and moves the memory back to node 0 for the next run.
fn observe_effect(finished: &CommandOutput, load: &LoadProcess) -> CommandEffect {
    let added = |line: &str| line.starts_with("nodeward: ") || line.starts_with("libnuma: ");
    let own = |line: &&str| !line.is_empty() && !added(line);
    // All its pages are in: no thread of it runs.
    let nodes = pages_within(load.pid(), &load.range());
    if nodes.contains_key(&1) {
        move_load(load, "1 0");
    }
    CommandEffect {
        code: finished.code,
        stdout: finished.stdout.clone(),
        stderr: finished.stderr.lines().filter(own).map(str::to_owned).collect(),
        nodes,
    }
}
