//! A move in passes: what one destination has no room for, or what may not go there, goes to the
//! next.

use std::sync::Arc;

use nodeward_machine::{Machine, Process, Result};
use nodeward_model::{Account, SkipReason};

use crate::report::MoveReport;
use crate::shared_ledger::SharedLedger;
use crate::{MoveControl, MoveRequest, migrate};

/// Makes the moves of `passes` one after another, all by one ledger. Each but the first is for
/// those processes only of which pages may find a place that they did not find in the pass before.
///
/// # Errors
/// As [`migrate`]: only if nothing was done.
pub fn migrate_in_passes(
    machine: &dyn Machine,
    processes: &[Arc<dyn Process>],
    passes: &[MoveRequest],
    live: &MoveControl,
    journal: Option<&SharedLedger>,
) -> Result<MoveReport> {
    let mut total = MoveReport::default();
    for (index, pass) in passes.iter().enumerate() {
        if index == 0 {
            total = migrate(machine, processes, pass, live, journal)?;
            continue;
        }
        let Some(request) = rest_of(pass, &total) else { break };
        if live.is_stopped() {
            total.stopped = live.stop_reason();
            break;
        }
        match migrate(machine, processes, &request, live, journal) {
            Ok(report) => total.join_pass(report),
            Err(error) => total.error = Some(error),
        }
    }
    Ok(total)
}

/// Returns true if pages stayed because of their destination: it had no room, or their process's
/// cpuset does not allow it.
pub fn may_fit_elsewhere(account: &Account) -> bool {
    let reasons = [SkipReason::NoMemory, SkipReason::NoHugePage, SkipReason::NotAllowed];
    reasons.into_iter().any(|reason| account.skipped_for(reason) > 0)
}

/// Returns the request of a pass for what is left; `None` if nothing is, or after an error.
fn rest_of(pass: &MoveRequest, done: &MoveReport) -> Option<MoveRequest> {
    if done.error.is_some() || !may_fit_elsewhere(&done.account()) {
        return None;
    }
    let mut rest = pass.clone();
    for (orders, process) in rest.orders.iter_mut().zip(&done.processes) {
        if !may_fit_elsewhere(&process.account) {
            *orders = [].into();
        }
    }
    Some(rest)
}
