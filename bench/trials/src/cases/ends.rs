//! Targets that end, or become another program, in the middle of a move.

use std::time::Duration;

use nodeward_model::SkipReason;
use rustix::process::Signal;

use crate::load::Load;
use crate::nodeward::{Finished, Report, Underway, move_load};
use crate::{Body, Ran};

pub const CASES: [(&str, Body); 5] = [
    ("killed_between_calls", killed_between_calls),
    ("killed_at_any_time", killed_at_any_time),
    ("exits", exits),
    ("exec", exec),
    ("zombie", zombie),
];

/// Checks the report of a process that is gone: pages that did not move are reported as gone, or as
/// freed before, and nothing else.
fn gone(finished: &Finished, life: &str) -> Report {
    let report = finished.report(5);
    let process = &report.processes[0];
    assert_eq!((process.life.as_str(), &report.error), (life, &None), "{report:?}");
    let told = |reason: &SkipReason| [SkipReason::Gone, SkipReason::NotPresent].contains(reason);
    assert!(process.account.skipped.keys().all(told), "{report:?}");
    report
}

/// Goal: a process that is killed between two calls is gone, and the pages that had moved are
/// reported.
fn killed_between_calls() -> Ran {
    let load = Load::start("--node 0 --size 32MiB");
    let underway = Underway::start(&load, "0 1 --rate 2MiB/s");
    load.wait_for_arrivals();
    load.signal(Signal::KILL);
    let report = gone(&underway.finish(), "exited");
    assert!(report.account.moved > 0, "{report:?}");
    assert!(report.account.skipped_total() > 0, "{report:?}");
    Ok(())
}

/// Goal: whatever instant it is killed at, nodeward says that it is gone or that all was done.
fn killed_at_any_time() -> Ran {
    for delay_ms in (0..8).map(|round| round * 6) {
        let load = Load::start("--node 0 --size 32MiB --threads 0");
        let underway = Underway::start(&load, "0 1");
        std::thread::sleep(Duration::from_millis(delay_ms));
        load.signal(Signal::KILL);
        let finished = underway.finish();
        match finished.code {
            // Before it was held there is nothing to account for.
            5 if finished.stdout.is_empty() => finished.refused(5, &["gone"]),
            _ => drop(gone(&finished, "exited")),
        }
    }
    Ok(())
}

/// Goal: the same holds when the process ends by itself.
fn exits() -> Ran {
    let load = Load::start("--node 0 --size 32MiB");
    let underway = Underway::start(&load, "0 1 --rate 2MiB/s");
    load.wait_for_arrivals();
    load.done();
    let report = gone(&underway.finish(), "exited");
    assert!(report.account.moved > 0, "{report:?}");
    Ok(())
}

/// Goal: another program under the same pid is not touched.
fn exec() -> Ran {
    let load = Load::start("--node 0 --size 32MiB");
    let underway = Underway::start(&load, "0 1 --rate 2MiB/s");
    load.wait_for_arrivals();
    load.signal(Signal::HUP);
    let report = gone(&underway.finish(), "replaced");
    assert!(report.account.moved > 0, "{report:?}");
    assert!(report.account.skipped_total() > 0, "{report:?}");
    let again: Report = move_load(&load, "0 1").json();
    assert_eq!(again.processes[0].life, "running", "{again:?}");
    Ok(())
}

/// Goal: a process that has ended and was not yet waited for is gone.
fn zombie() -> Ran {
    let load = Load::start("--node 0 --size 1MiB");
    load.signal(Signal::KILL);
    crate::guest::wait_until("it is a zombie", || {
        crate::guest::read(&format!("/proc/{}/status", load.pid())).contains("State:\tZ")
    });
    move_load(&load, "0 1").refused(5, &["gone"]);
    Ok(())
}
