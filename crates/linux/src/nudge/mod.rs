//! Placement of threads: a *nudge* moves a thread to some CPUs and leaves it free to run elsewhere,
//! a pin keeps it there.
//!
//! A nudge narrows the thread's affinity and widens it again. The kernel moves a thread that runs
//! or waits for a CPU before it returns from the first call. It moves a sleeping thread when that
//! wakes up, if this happens before the second call; a nudge waits for it, but only for a moment.
//!
//! What can go wrong, and the result:
//!
//! - Another process sets the affinity in between: its setting stays in force. There is no call
//!   that compares and sets, so a change in the last microseconds is overwritten.
//! - This process is killed in between: the next start finds the note of the nudge ([`journal`]).
//!   Without notes the thread stays narrowed.
//! - A cpuset that grows later gives a thread only the CPUs of its last setting (Linux 6.2 and
//!   later). So a thread that could run on all of its cpuset is set to all possible CPUs.

pub mod journal;
mod record;
#[cfg(test)]
mod tests;
mod thread_affinity;

use std::io;

use nodeward_model::{AffinityOutcome, Cpumask, Pid};

use self::journal::NudgeJournal;
use self::record::{NudgeRecord, widen};
use self::thread_affinity::outcome_of_error;

pub use self::thread_affinity::{KernelAffinity, ThreadAffinity};

/// How often a nudge looks whether a sleeping thread has moved.
const POLLS_MAX: u32 = 8;

/// Moves a thread of `pid` to some of the CPUs in its affinity, and restores the affinity.
pub fn nudge(
    scheduler: &dyn ThreadAffinity,
    notes: &NudgeJournal,
    (pid, tid): (Pid, u32),
    cpus: &Cpumask,
) -> io::Result<AffinityOutcome> {
    let before = match scheduler.cpus(tid) {
        Ok(before) => before,
        Err(error) => return outcome_of_error(error),
    };
    let target = before.and(cpus);
    if target.is_empty() {
        return Ok(AffinityOutcome::NotAllowed);
    }
    // A thread that may run nowhere else, or ran there last, is there or will be when it wakes up.
    if target == before || scheduler.cpu(tid).is_ok_and(|cpu| target.contains(cpu)) {
        return Ok(AffinityOutcome::Done);
    }
    let everywhere = scheduler.is_unrestricted(tid, &before);
    let note = NudgeRecord { pid, tid, before, target, unrestricted: everywhere };
    notes.record_during(&note, || narrow_and_widen(scheduler, &note))
}

fn narrow_and_widen(
    scheduler: &dyn ThreadAffinity,
    note: &NudgeRecord,
) -> io::Result<AffinityOutcome> {
    if let Err(error) = scheduler.set(note.tid, &note.target) {
        return outcome_of_error(error);
    }
    let came = wait_for_arrival(scheduler, note);
    match widen(scheduler, note)? {
        AffinityOutcome::Done if !came => Ok(AffinityOutcome::Asleep),
        placed => Ok(placed),
    }
}

/// Waits until the thread has moved. Returns at once if it cannot.
fn wait_for_arrival(scheduler: &dyn ThreadAffinity, note: &NudgeRecord) -> bool {
    for look in 0..POLLS_MAX {
        match scheduler.cpu(note.tid) {
            Ok(cpu) if note.target.contains(cpu) => return true,
            Ok(_) if look + 1 < POLLS_MAX => scheduler.wait(),
            Ok(_) | Err(_) => return false,
        }
    }
    false
}

/// Restricts a thread to those of these CPUs that its cpuset allows.
pub fn pin(
    scheduler: &dyn ThreadAffinity,
    tid: u32,
    cpus: &Cpumask,
) -> io::Result<AffinityOutcome> {
    // A thread that gets back all of its cpuset is not restricted to the CPUs of today's cpuset.
    let told = match scheduler.is_unrestricted(tid, cpus) {
        true => scheduler.set_unrestricted(tid),
        false => scheduler.set(tid, cpus),
    };
    told.map(|()| AffinityOutcome::Done).or_else(outcome_of_error)
}
