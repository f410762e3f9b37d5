//! Moves are recorded in the ledger, and can be undone.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use nodeward_model::SkipReason;
use rustix::process::Signal;
use serde::Deserialize;
use serde_json::Value;

use crate::case_outcome::{CaseFn, CaseOutcome};
use crate::guest::UNPRIVILEGED_USER;
use crate::load::LoadProcess;
use crate::nodeward::{CommandOutput, RunningMove, move_load, nodeward, run_command, skip_counts};

pub const CASES: [(&str, CaseFn); 8] = [
    ("undo_a_move", undo_a_move),
    ("undo_by_a_deadline", undo_by_a_deadline),
    ("undo_what_is_still_there", undo_what_is_still_there),
    ("undo_after_kill", undo_after_kill),
    ("undo_of_the_gone", undo_of_the_gone),
    ("undo_of_a_running_move", undo_of_a_running_move),
    ("ledger_that_cannot_be_written", cannot_be_written),
    ("ledger_of_two_at_once", two_at_once),
];

/// Returns the number of the operation that a report names.
pub fn id(finished: &CommandOutput) -> u64 {
    #[derive(Deserialize)]
    struct LedgerField {
        id: u64,
        error: Option<String>,
    }
    #[derive(Deserialize)]
    struct ReportWithLedger {
        ledger: LedgerField,
    }
    let report: ReportWithLedger = finished.json();
    assert_eq!(report.ledger.error, None, "{finished:?}");
    report.ledger.id
}

fn undo(id: u64) -> CommandOutput {
    nodeward(&format!("undo --json --quiet {id}"))
}

fn shown(id: u64) -> Value {
    nodeward(&format!("ledger --json {id}")).json()
}

/// Goal: an undo restores the previous places, page by page; an undo of the undo moves the pages
/// there again; and the ledger has all three.
fn undo_a_move() -> CaseOutcome {
    let load = LoadProcess::start("--node 0 --size 64MiB");
    // Not all on one node: a third of the pages is on node 1 before.
    let third = load.range().start + (64 << 20) / 3 / 4096 * 4096;
    let part = format!("0 1 --range {:x}-{third:x}", load.range().start);
    assert_eq!(move_load(&load, &part).code, 0);
    let before = load.pages_by_node();
    let moved = move_load(&load, "0 1");
    let after = load.pages_by_node();
    let first = id(&moved);
    let undone = undo(first);
    assert_eq!(undone.report_after_exit(0).account.skipped, skip_counts([]));
    assert_eq!(load.pages_by_node(), before);
    let again = undo(id(&undone));
    assert_eq!(again.report_after_exit(0).account.skipped, skip_counts([]));
    assert_eq!(load.pages_by_node(), after);
    let story = shown(id(&again));
    assert_eq!((&story["undoes"], &story["state"]["name"]), (&id(&undone).into(), &"ended".into()));
    let list = nodeward("ledger").stdout;
    assert!(list.contains(&format!("undo --json --quiet {first}")), "{list}");
    load.end();
    Ok(())
}

/// Goal: a move and an undo end by their deadline, tell what is left, and are continued by the same
/// command. At 16 MiB a second 64 MiB take 4 s; of 3 s the last is kept for looking.
fn undo_by_a_deadline() -> CaseOutcome {
    let load = LoadProcess::start("--node 0 --size 64MiB --threads 0");
    let on_node_1 = || load.memory_by_node().get(&1).copied().unwrap_or(0);
    let words = format!("0 1 --range {} --rate 16MiB/s --deadline 3s", load.ready.range);
    let report = move_load(&load, &words).report_after_exit(1);
    let (moved, left) = (report.account.moved, 16_384 - report.account.moved);
    assert!(report.deadline_over && report.interrupted, "{report:?}");
    assert!(moved > 0 && left > 0 && moved == on_node_1(), "{report:?}");
    assert_eq!(report.account.skipped, skip_counts([(SkipReason::Interrupted, left)]));
    let rest = move_load(&load, &format!("0 1 --range {}", load.ready.range));
    assert_eq!(rest.report_after_exit(0).account.moved, left, "{rest:?}");

    let words = format!("undo --json --quiet {} --rate 1MiB/s --deadline 2s", id(&rest));
    let report = nodeward(&words).report_after_exit(1);
    assert!(report.deadline_over && report.account.moved > 0, "{report:?}");
    assert!(on_node_1() > moved, "{report:?}");
    undo(id(&rest)).report_after_exit(0);
    assert_eq!(on_node_1(), moved);
    load.end();
    Ok(())
}

/// Goal: only pages that are still on the destination move back.
fn undo_what_is_still_there() -> CaseOutcome {
    let load = LoadProcess::start("--node 0 --size 16MiB --threads 0");
    let moved = id(&move_load(&load, &format!("0 1 --range {}", load.ready.range)));
    let half = load.range().start + (8 << 20);
    let part = format!("1 0 --range {:x}-{half:x}", load.range().start);
    assert_eq!(move_load(&load, &part).code, 0);
    let report = undo(moved).report_after_exit(0);
    // 8 MiB are back already, 8 MiB move back: 2048 pages each.
    assert_eq!((report.account.moved, report.account.already_there), (2048, 2048), "{report:?}");
    assert_eq!(load.memory_by_node().get(&1), None);
    load.end();
    Ok(())
}

/// Goal: a move that is killed at any instant is listed as interrupted, and all pages that it moved
/// go back.
fn undo_after_kill() -> CaseOutcome {
    for rate in ["16MiB/s", "64MiB/s", "unlimited"] {
        let load = LoadProcess::start("--node 0 --size 32MiB");
        let before = load.pages_by_node();
        let underway = RunningMove::start(&load, &format!("0 1 --rate {rate}"));
        load.wait_for_arrivals();
        underway.kill();
        let there = load.pages_by_node();
        let list: Value = nodeward("ledger --json").json();
        let last = &list["operations"][0];
        let state = last["state"]["name"].as_str().expect("a state");
        println!("killed at {rate}: {state}, {there:?}");
        assert!(state == "interrupted" || there.get(&0).is_none_or(|&left| left < 64), "{last}");
        let report = undo(last["id"].as_u64().expect("an id")).report_after_exit(0);
        assert_eq!(report.account.skipped, skip_counts([]));
        assert_eq!(load.pages_by_node(), before, "{report:?}");
        load.end();
    }
    Ok(())
}

/// Goal: a process that ended, another one under its pid, and another program in it are not
/// touched; the message says so.
fn undo_of_the_gone() -> CaseOutcome {
    let load = LoadProcess::start("--node 0 --size 4MiB");
    let moved = id(&move_load(&load, "0 1"));
    load.signal(Signal::HUP); // it calls exec
    crate::guest::wait_until("it runs another program", || undo(moved).code == 5);
    undo(moved).assert_nothing_to_undo(moved, load.pid());
    let pid = load.pid();
    drop(load);
    undo(moved).assert_nothing_to_undo(moved, pid);
    let mut another = reuse(pid);
    undo(moved).assert_nothing_to_undo(moved, pid);
    another.kill().expect("our child can be killed");
    another.wait().expect("our child can be waited for");
    undo(moved + 100).assert_refused(2, &["no operation", &moved.to_string()]);
    Ok(())
}

/// Starts a process with this pid, if the kernel lets us choose; it sleeps.
fn reuse(pid: u32) -> Child {
    std::fs::write("/proc/sys/kernel/ns_last_pid", (pid - 1).to_string()).expect("we are root");
    let child = Command::new("sleep").arg("60").spawn().expect("sleep starts");
    assert_eq!(child.id(), pid, "the pid is used again");
    child
}

impl CommandOutput {
    /// Checks that an undo said that there is nothing left to undo.
    fn assert_nothing_to_undo(&self, id: u64, pid: u32) {
        assert_eq!((self.code, self.stdout.as_str()), (5, ""), "{self:?}");
        for words in [format!("process {pid}"), format!("operation {id} cannot be undone")] {
            assert!(self.stderr.contains(&words), "{words}: {self:?}");
        }
    }
}

/// Goal: a move in progress is not undone.
fn undo_of_a_running_move() -> CaseOutcome {
    let load = LoadProcess::start("--node 0 --size 32MiB");
    let underway = RunningMove::start(&load, "0 1 --rate 1MiB/s");
    load.wait_for_arrivals();
    let list: Value = nodeward("ledger --json").json();
    let last = &list["operations"][0];
    assert_eq!(last["state"]["name"], "running");
    undo(last["id"].as_u64().expect("an id")).assert_refused(2, &["still running"]);
    underway.signal(Signal::INT);
    let report = underway.finish().report_after_exit(130);
    let stayed = report.account.skipped_for(SkipReason::Interrupted);
    assert_eq!(shown(last["id"].as_u64().expect("an id"))["state"]["name"], "stopped");
    assert!(stayed > 0);
    load.end();
    Ok(())
}

/// Goal: without a place for the ledger, or when the disk fills up in the middle, the move is made
/// all the same, and it is reported that it cannot be undone, or not wholly.
fn cannot_be_written() -> CaseOutcome {
    let load = LoadProcess::start("--node 0 --size 16MiB --threads 0");
    let with_state = |dir: &str, to: &str| {
        let mut command = Command::new("nodeward");
        command.args(["move", "--json", &load.pid().to_string()]).args(to.split(' '));
        run_command(command.env("NODEWARD_STATE_DIR", dir).stdin(Stdio::null()))
    };
    // Nothing can be created below /proc, not even by root.
    let finished = with_state("/proc/nodeward", "0 1");
    finished.report_after_exit(0);
    assert!(finished.stderr.contains("cannot be undone later"), "{finished:?}");
    // Every second page is isolated: 2048 runs take more than the page that this disk has.
    let full = Path::new("/tmp/full");
    std::fs::create_dir_all(full).expect("a directory");
    mount_small(full);
    std::fs::write(full.join("filler"), vec![0; 3 * 4096]).expect("room for a filler");
    let pages = load.range().step_by(2 * 4096).map(|address| format!("{address:x}\n"));
    std::fs::write("/tmp/list", pages.collect::<String>()).expect("a list");
    let finished = with_state("/tmp/full", "0 --addresses /tmp/list");
    finished.report_after_exit(0);
    let report: Value = finished.json();
    println!("full disk: {} {}", report["ledger"], finished.stderr.trim());
    let told = report["ledger"]["error"].is_string() || finished.stderr.contains("undone later");
    assert!(told, "{finished:?}");
    assert_eq!(load.memory_by_node()[&0], 2048);
    load.end();
    Ok(())
}

/// A file system of 16 KiB.
fn mount_small(at: &Path) {
    let mut command = Command::new("mount");
    command.args(["-t", "tmpfs", "-o", "size=16k", "none"]).arg(at);
    assert_eq!(run_command(&mut command).code, 0);
}

/// Goal: two concurrent commands have a ledger each, and both can be undone.
fn two_at_once() -> CaseOutcome {
    let loads = [(); 2].map(|()| LoadProcess::start("--node 0 --size 16MiB"));
    let before = loads.each_ref().map(LoadProcess::pages_by_node);
    let underway = loads.each_ref().map(|load| RunningMove::start(load, "0 1 --rate 64MiB/s"));
    let ids = underway.map(|underway| id(&underway.finish()));
    assert_ne!(ids[0], ids[1]);
    for moved in ids {
        undo(moved).report_after_exit(0);
    }
    assert_eq!(loads.each_ref().map(LoadProcess::pages_by_node), before);
    // Each user has a ledger.
    let mut command = Command::new("nodeward");
    let theirs = run_command(command.args(["ledger"]).uid(UNPRIVILEGED_USER).env("HOME", "/tmp"));
    assert_eq!((theirs.code, theirs.stdout.as_str()), (0, "no move is recorded\n"), "{theirs:?}");
    loads.into_iter().for_each(|load| _ = load.end());
    Ok(())
}
