//! Moves while the target changes its address space, with every word checked.

use std::collections::BTreeSet;

use nodeward_model::SkipReason;

use crate::case_outcome::{CaseFn, CaseOutcome};
use crate::guest::UNPRIVILEGED_USER;
use crate::load::LoadProcess;
use crate::nodeward::{CommandOutput, MoveJson, move_load, move_load_as};

pub const CASES: [(&str, CaseFn); 6] = [
    ("race_unmap", || race("unmap")),
    ("race_discard", || race("discard")),
    ("race_grow", || race("grow")),
    ("race_fork", || race("fork")),
    ("race_all", || race("unmap,discard,grow,fork")),
    ("race_without_privilege", race_without_privilege),
];

const ROUNDS: usize = 2;

/// Goal: no write is lost, and every page ends with a plausible reason.
fn race(how: &str) -> CaseOutcome {
    let load = LoadProcess::start(&format!(
        "--node 0 --size 8MiB --race-size 1MiB --race {how} --pause 1ms --unbind"
    ));
    let busy = [SkipReason::NotPresent, SkipReason::Pinned];
    rounds(&load, &busy.into(), |words| move_load(&load, words));
    let done = load.end();
    assert!(done.races > 0 && done.writes > 0, "{done:?}");
    Ok(())
}

/// Goal: the same holds for a process's own user; pages that a child shares may stay.
fn race_without_privilege() -> CaseOutcome {
    let how =
        "--node 0 --size 8MiB --race-size 1MiB --race unmap,discard,fork --pause 1ms --unbind";
    let load = LoadProcess::start_as(UNPRIVILEGED_USER, how);
    let busy = [SkipReason::NotPresent, SkipReason::Pinned, SkipReason::Shared];
    rounds(&load, &busy.into(), |words| move_load_as(UNPRIVILEGED_USER, &load, words));
    assert!(load.end().races > 0);
    Ok(())
}

/// Moves a load to and fro by `run`, and checks the reasons of pages that stayed.
pub(super) fn rounds(
    load: &LoadProcess,
    allowed: &BTreeSet<SkipReason>,
    run: impl Fn(&str) -> CommandOutput,
) {
    for round in 0..ROUNDS {
        let finished = run(if round % 2 == 0 { "0 1" } else { "1 0" });
        assert!([0, 1, 3].contains(&finished.code), "{finished:?}");
        let report: MoveJson = finished.json();
        println!("round {round}: {:?}", report.account);
        let seen: BTreeSet<SkipReason> = report.account.skipped.keys().copied().collect();
        assert!(seen.is_subset(allowed), "{report:?}");
        assert!(report.account.selected() >= load.ready.pages, "{report:?}");
        assert_eq!(report.error, None);
    }
}
