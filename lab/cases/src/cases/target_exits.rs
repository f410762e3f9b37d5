//! Targets that end, or become another program, in the middle of a move.

use std::time::Duration;

use nodeward_model::SkipReason;
use rustix::process::Signal;

use crate::case_outcome::{CaseFn, CaseOutcome};
use crate::load::LoadProcess;
use crate::nodeward::{CommandOutput, MoveJson, RunningMove, move_load};

pub const CASES: [(&str, CaseFn); 5] = [
    ("killed_between_calls", killed_between_calls),
    ("killed_at_any_time", killed_at_any_time),
    ("exits", exits),
    ("exec", exec),
    ("zombie", zombie),
];

/// Checks the report of a process that is gone: pages that did not move are reported as gone, or as
/// freed before, and nothing else.
fn assert_gone(finished: &CommandOutput, life: &str) -> MoveJson {
    let report = finished.report_after_exit(5);
    let process = &report.processes[0];
    assert_eq!((process.life.as_str(), &report.error), (life, &None), "{report:?}");
    let told = |reason: &SkipReason| [SkipReason::Gone, SkipReason::NotPresent].contains(reason);
    assert!(process.account.skipped.keys().all(told), "{report:?}");
    report
}

/// Goal: a process that is killed between two calls is gone, and the pages that had moved are
/// reported.
fn killed_between_calls() -> CaseOutcome {
    let load = LoadProcess::start("--node 0 --size 32MiB");
    let underway = RunningMove::start(&load, "0 1 --rate 2MiB/s");
    load.wait_for_arrivals();
    load.signal(Signal::KILL);
    let report = assert_gone(&underway.finish(), "exited");
    assert!(report.account.moved > 0, "{report:?}");
    assert!(report.account.skipped_total() > 0, "{report:?}");
    Ok(())
}

/// Goal: whatever instant it is killed at, nodeward says that it is gone or that all was done.
fn killed_at_any_time() -> CaseOutcome {
    for delay_ms in (0..8).map(|round| round * 6) {
        let load = LoadProcess::start("--node 0 --size 32MiB --threads 0");
        let underway = RunningMove::start(&load, "0 1");
        std::thread::sleep(Duration::from_millis(delay_ms));
        load.signal(Signal::KILL);
        let finished = underway.finish();
        match finished.code {
            // Before it was held there is nothing to account for.
            5 if finished.stdout.is_empty() => finished.assert_refused(5, &["gone"]),
            _ => drop(assert_gone(&finished, "exited")),
        }
    }
    Ok(())
}

/// Goal: the same holds when the process ends by itself.
fn exits() -> CaseOutcome {
    let load = LoadProcess::start("--node 0 --size 32MiB");
    let underway = RunningMove::start(&load, "0 1 --rate 2MiB/s");
    load.wait_for_arrivals();
    load.end();
    let report = assert_gone(&underway.finish(), "exited");
    assert!(report.account.moved > 0, "{report:?}");
    Ok(())
}

/// Goal: another program under the same pid is not touched.
fn exec() -> CaseOutcome {
    let load = LoadProcess::start("--node 0 --size 32MiB");
    let underway = RunningMove::start(&load, "0 1 --rate 2MiB/s");
    load.wait_for_arrivals();
    load.signal(Signal::HUP);
    let report = assert_gone(&underway.finish(), "replaced");
    assert!(report.account.moved > 0, "{report:?}");
    assert!(report.account.skipped_total() > 0, "{report:?}");
    let again: MoveJson = move_load(&load, "0 1").json();
    assert_eq!(again.processes[0].life, "running", "{again:?}");
    Ok(())
}

/// Goal: a process that has ended and was not yet waited for is gone.
fn zombie() -> CaseOutcome {
    let load = LoadProcess::start("--node 0 --size 1MiB");
    load.signal(Signal::KILL);
    crate::guest::wait_until("it is a zombie", || {
        crate::guest::read(&format!("/proc/{}/status", load.pid())).contains("State:\tZ")
    });
    move_load(&load, "0 1").assert_refused(5, &["gone"]);
    Ok(())
}
