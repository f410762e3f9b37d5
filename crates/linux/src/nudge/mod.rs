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
#[cfg(test)]
mod tests;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nodeward_model::{AffinityOutcome, CpuId, Cpumask, Pid};

use self::journal::{NudgeJournal, NudgeRecord};
use crate::affinity;
use crate::cgroup::{self, MemoryGroups};
use crate::procfs::stat;

/// Checks whether a sleeping thread has moved, and the time between two checks.
const POLLS_MAX: u32 = 8;
const PAUSE: Duration = Duration::from_micros(250);

/// The kernel's interface to threads.
pub trait ThreadAffinity {
    /// Returns the affinity of a thread.
    fn cpus(&self, tid: u32) -> io::Result<Cpumask>;

    /// Sets the affinity of a thread.
    fn set(&self, tid: u32, cpus: &Cpumask) -> io::Result<()>;

    /// Sets the affinity of a thread to all CPUs.
    fn set_unrestricted(&self, tid: u32) -> io::Result<()>;

    /// Returns the CPU that a thread ran on last.
    fn cpu(&self, tid: u32) -> io::Result<CpuId>;

    /// Returns true if these are all CPUs that the thread's cpuset allows.
    fn is_unrestricted(&self, tid: u32, cpus: &Cpumask) -> bool;

    /// Waits a moment.
    fn wait(&self);
}

/// This kernel's interface, for the threads of one process.
#[derive(Debug)]
pub struct KernelAffinity<'a> {
    /// The root directory of /sys.
    pub root: &'a Path,
    /// The directory of the process in /proc.
    pub folder: &'a Path,
}

impl ThreadAffinity for KernelAffinity<'_> {
    fn cpus(&self, tid: u32) -> io::Result<Cpumask> {
        affinity::get(tid)
    }

    fn set(&self, tid: u32, cpus: &Cpumask) -> io::Result<()> {
        affinity::set(tid, cpus)
    }

    fn set_unrestricted(&self, tid: u32) -> io::Result<()> {
        affinity::set_unrestricted(tid)
    }

    fn cpu(&self, tid: u32) -> io::Result<CpuId> {
        let text = fs::read(self.folder.join(format!("task/{tid}/stat")))?;
        stat::parse(&text).map(|stat| stat.cpu).ok_or(io::ErrorKind::InvalidData.into())
    }

    fn is_unrestricted(&self, tid: u32, cpus: &Cpumask) -> bool {
        let is = |path: PathBuf| {
            let listed = fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok());
            listed.is_some_and(|listed: Cpumask| listed == *cpus)
        };
        is(self.root.join("sys/devices/system/cpu/online")) || self.cpuset(tid).is_some_and(is)
    }

    fn wait(&self) {
        std::thread::sleep(PAUSE);
    }
}

impl KernelAffinity<'_> {
    /// Returns the file with the CPUs of a thread's control group (version 2), or of its nearest
    /// ancestor that has the cpuset controller.
    fn cpuset(&self, tid: u32) -> Option<PathBuf> {
        let text = fs::read(self.folder.join(format!("task/{tid}/cgroup"))).ok()?;
        let group = cgroup::group_path_v2(&text)?;
        let folder = MemoryGroups::find(self.root).ok()?.folder_v2_of(&group)?;
        let file =
            |folder: &Path| Some(folder.join("cpuset.cpus.effective")).filter(|f| f.exists());
        folder.ancestors().take_while(|folder| folder.starts_with(self.root)).find_map(file)
    }
}

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

/// Restores a thread's affinity, unless another process has changed it.
fn widen(scheduler: &dyn ThreadAffinity, note: &NudgeRecord) -> io::Result<AffinityOutcome> {
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

/// Translates an error of the kernel that describes the state of the thread; returns other errors.
fn outcome_of_error(error: io::Error) -> io::Result<AffinityOutcome> {
    match error.raw_os_error() {
        Some(libc::ESRCH) => Ok(AffinityOutcome::Gone),
        // EBUSY: the CPUs of a deadline thread are reserved.
        Some(libc::EINVAL | libc::EBUSY) => Ok(AffinityOutcome::NotAllowed),
        _ => Err(error),
    }
}
