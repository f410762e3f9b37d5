//! Where threads run: a *nudge* brings a thread to some CPUs and leaves it free, a pin keeps it
//! there.
//!
//! A nudge narrows the thread's affinity and widens it again. The kernel moves a thread that runs,
//! or waits for a CPU, before it returns from the first call; one that sleeps is moved when it
//! wakes up, if it does so before the second. For that we wait a moment, no longer.
//!
//! What can go wrong, and what becomes of it:
//!
//! - Somebody sets the affinity in between: it stands as they left it. There is no call that
//!   compares and sets, so a change in the last microseconds is overwritten.
//! - We are killed in between: the note of the nudge ([`notes`]) is found by the next start.
//!   Without notes the thread stays narrowed.
//! - A cpuset that grows later gives a thread only the CPUs that it was told (Linux 6.2 and later).
//!   So one that could run on all of its cpuset is told all CPUs that there can be.

pub mod notes;
#[cfg(test)]
mod tests;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nodeward_model::{CpuId, Cpumask, Pid, Placed};

use self::notes::{Note, Notes};
use crate::affinity;
use crate::cgroup::{self, MemoryGroups};
use crate::procfs::stat;

/// How often we look whether a sleeping thread has come, and the time between.
const LOOKS_MAX: u32 = 8;
const PAUSE: Duration = Duration::from_micros(250);

/// What the kernel tells and takes about threads.
pub trait Scheduler {
    /// The CPUs that a thread may run on.
    fn cpus(&self, tid: u32) -> io::Result<Cpumask>;

    /// Tells a thread its CPUs.
    fn set(&self, tid: u32, cpus: &Cpumask) -> io::Result<()>;

    /// Tells a thread that all CPUs are its own.
    fn set_all(&self, tid: u32) -> io::Result<()>;

    /// The CPU that a thread ran on last.
    fn cpu(&self, tid: u32) -> io::Result<CpuId>;

    /// Whether these are all CPUs that the thread's cpuset allows.
    fn is_everywhere(&self, tid: u32, cpus: &Cpumask) -> bool;

    /// Waits a moment.
    fn wait(&self);
}

/// This kernel's, for the threads of one process.
#[derive(Debug)]
pub struct Kernel<'a> {
    /// The root of /sys.
    pub root: &'a Path,
    /// The folder of the process in /proc.
    pub folder: &'a Path,
}

impl Scheduler for Kernel<'_> {
    fn cpus(&self, tid: u32) -> io::Result<Cpumask> {
        affinity::of(tid)
    }

    fn set(&self, tid: u32, cpus: &Cpumask) -> io::Result<()> {
        affinity::set(tid, cpus)
    }

    fn set_all(&self, tid: u32) -> io::Result<()> {
        affinity::set_all(tid)
    }

    fn cpu(&self, tid: u32) -> io::Result<CpuId> {
        let text = fs::read(self.folder.join(format!("task/{tid}/stat")))?;
        stat::parse(&text).map(|stat| stat.cpu).ok_or(io::ErrorKind::InvalidData.into())
    }

    fn is_everywhere(&self, tid: u32, cpus: &Cpumask) -> bool {
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

impl Kernel<'_> {
    /// The file with the CPUs of a thread's control group (version 2), or of the nearest group
    /// above it that shares CPUs out.
    fn cpuset(&self, tid: u32) -> Option<PathBuf> {
        let text = fs::read(self.folder.join(format!("task/{tid}/cgroup"))).ok()?;
        let group = cgroup::group_v2(&text)?;
        let folder = MemoryGroups::find(self.root).ok()?.folder_v2_of(&group)?;
        let file =
            |folder: &Path| Some(folder.join("cpuset.cpus.effective")).filter(|f| f.exists());
        folder.ancestors().take_while(|folder| folder.starts_with(self.root)).find_map(file)
    }
}

/// Brings a thread of `pid` to some of the CPUs that it may run on, and lets it run where it might
/// before.
pub fn nudge(
    scheduler: &dyn Scheduler,
    notes: &Notes,
    (pid, tid): (Pid, u32),
    cpus: &Cpumask,
) -> io::Result<Placed> {
    let before = match scheduler.cpus(tid) {
        Ok(before) => before,
        Err(error) => return refused(error),
    };
    let target = before.and(cpus);
    if target.is_empty() {
        return Ok(Placed::NotAllowed);
    }
    // One that may run nowhere else is there, or will be when it wakes up.
    if target == before || scheduler.cpu(tid).is_ok_and(|cpu| target.contains(cpu)) {
        return Ok(Placed::Done);
    }
    let everywhere = scheduler.is_everywhere(tid, &before);
    let note = Note { pid, tid, before, target, everywhere };
    notes.during(&note, || narrow_and_widen(scheduler, &note))
}

fn narrow_and_widen(scheduler: &dyn Scheduler, note: &Note) -> io::Result<Placed> {
    if let Err(error) = scheduler.set(note.tid, &note.target) {
        return refused(error);
    }
    let came = comes(scheduler, note);
    match widen(scheduler, note)? {
        Placed::Done if !came => Ok(Placed::Asleep),
        placed => Ok(placed),
    }
}

/// Waits for a thread to come, as long as that makes sense.
fn comes(scheduler: &dyn Scheduler, note: &Note) -> bool {
    for look in 0..LOOKS_MAX {
        match scheduler.cpu(note.tid) {
            Ok(cpu) if note.target.contains(cpu) => return true,
            Ok(_) if look + 1 < LOOKS_MAX => scheduler.wait(),
            Ok(_) | Err(_) => return false,
        }
    }
    false
}

/// Gives a thread back what it could use before, unless somebody else has told it something.
fn widen(scheduler: &dyn Scheduler, note: &Note) -> io::Result<Placed> {
    let Note { tid, before, target, everywhere, .. } = note;
    match scheduler.cpus(*tid) {
        Ok(now) if now == *target => {}
        Ok(_) => return Ok(Placed::Changed),
        Err(error) => return refused(error),
    }
    let told = match everywhere {
        true => scheduler.set_all(*tid),
        false => scheduler.set(*tid, before),
    };
    match told {
        Ok(()) => Ok(Placed::Done),
        // Its cpuset has changed and allows none of them any more.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
            scheduler.set_all(*tid).map(|()| Placed::Changed).or_else(refused)
        }
        Err(error) => refused(error),
    }
}

/// Keeps a thread on those of these CPUs that its cpuset allows.
pub fn pin(scheduler: &dyn Scheduler, tid: u32, cpus: &Cpumask) -> io::Result<Placed> {
    // Who may run on all of its cpuset again is not tied to what that is today.
    let told = match scheduler.is_everywhere(tid, cpus) {
        true => scheduler.set_all(tid),
        false => scheduler.set(tid, cpus),
    };
    told.map(|()| Placed::Done).or_else(refused)
}

/// What a refusal of the kernel means for a thread, if it means something about the thread.
fn refused(error: io::Error) -> io::Result<Placed> {
    match error.raw_os_error() {
        Some(libc::ESRCH) => Ok(Placed::Gone),
        // EBUSY: a thread with deadlines has its CPUs promised.
        Some(libc::EINVAL | libc::EBUSY) => Ok(Placed::NotAllowed),
        _ => Err(error),
    }
}
