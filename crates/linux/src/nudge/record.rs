//! A nudge in progress, and its end.

use std::io;

use nodeward_model::{AffinityOutcome, Cpumask, Pid};

use super::thread_affinity::{ThreadAffinity, outcome_of_error};

/// A nudge in progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NudgeRecord {
    /// The process.
    pub pid: Pid,
    /// The thread.
    pub tid: u32,
    /// Its affinity before the nudge.
    pub before: Cpumask,
    /// Its affinity during the nudge.
    pub target: Cpumask,
    /// True if `before` is all that its cpuset allows.
    pub unrestricted: bool,
}

/// Restores a thread's affinity, unless another process has changed it.
pub fn widen(scheduler: &dyn ThreadAffinity, note: &NudgeRecord) -> io::Result<AffinityOutcome> {
    let NudgeRecord { tid, before, target, unrestricted: everywhere, .. } = note;
    match scheduler.cpus(*tid) {
        Ok(now) if now == *target => {}
        Ok(_) => return Ok(AffinityOutcome::Changed),
        Err(error) => return outcome_of_error(error),
    }
    let told = match everywhere {
        true => scheduler.set_unrestricted(*tid),
        false => scheduler.set(*tid, before),
    };
    match told {
        Ok(()) => Ok(AffinityOutcome::Done),
        // Its cpuset has changed and allows none of its former CPUs.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => scheduler
            .set_unrestricted(*tid)
            .map(|()| AffinityOutcome::Changed)
            .or_else(outcome_of_error),
        Err(error) => outcome_of_error(error),
    }
}
