//! A move in passes: what one destination has no room for goes to the next.

use std::sync::Arc;

use nodeward_machine::{Machine, Process, Result};
use nodeward_model::{Account, SkipReason};

use crate::report::MoveReport;
use crate::shared_ledger::SharedLedger;
use crate::{MoveControl, MoveRequest, migrate};

/// Makes the moves of `passes` one after another, all by one ledger. Each but the first is for
/// those processes only of which pages found no room in the pass before it.
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
        let Some(request) = rest_of(pass, &total, live) else { break };
        match migrate(machine, processes, &request, live, journal) {
            Ok(report) => total.join_pass(report),
            Err(error) => total.error = Some(error),
        }
    }
    total.interrupted = live.is_stopped() && total.error.is_none();
    Ok(total)
}

/// Returns true if pages stayed because their destination had no room.
pub fn lacks_room(account: &Account) -> bool {
    let reasons = [SkipReason::NoMemory, SkipReason::NoHugePage];
    reasons.into_iter().any(|reason| account.skipped_for(reason) > 0)
}

/// Returns the request of a pass for what is left; `None` if nothing is, or if the move was ended.
fn rest_of(pass: &MoveRequest, done: &MoveReport, live: &MoveControl) -> Option<MoveRequest> {
    if live.is_stopped() || done.error.is_some() || !lacks_room(&done.account()) {
        return None;
    }
    let mut rest = pass.clone();
    for (orders, process) in rest.orders.iter_mut().zip(&done.processes) {
        if !lacks_room(&process.account) {
            *orders = [].into();
        }
    }
    Some(rest)
}
