//! The affinity of threads, as this kernel reads and sets it.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nodeward_model::{AffinityOutcome, CpuId, Cpumask};

use crate::affinity;
use crate::cgroup::{self, MemoryGroups};
use crate::kernel_file;
use crate::procfs::stat;

/// The time between two looks at a sleeping thread.
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
        let text = kernel_file::read(self.folder.join(format!("task/{tid}/stat")))?;
        stat::parse(&text).map(|stat| stat.cpu).ok_or(io::ErrorKind::InvalidData.into())
    }

    fn is_unrestricted(&self, tid: u32, cpus: &Cpumask) -> bool {
        let is = |path: PathBuf| {
            let listed =
                kernel_file::read_to_string(path).ok().and_then(|text| text.trim().parse().ok());
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
        let text = kernel_file::read(self.folder.join(format!("task/{tid}/cgroup"))).ok()?;
        let group = cgroup::group_path_v2(&text)?;
        let folder = MemoryGroups::find(self.root).ok()?.folder_v2_of(&group)?;
        let file =
            |folder: &Path| Some(folder.join("cpuset.cpus.effective")).filter(|f| f.exists());
        folder.ancestors().take_while(|folder| folder.starts_with(self.root)).find_map(file)
    }
}

/// Translates an error of the kernel that describes the state of the thread; returns other errors.
pub fn outcome_of_error(error: io::Error) -> io::Result<AffinityOutcome> {
    match error.raw_os_error() {
        Some(libc::ESRCH) => Ok(AffinityOutcome::Gone),
        // EBUSY: the CPUs of a deadline thread are reserved.
        Some(libc::EINVAL | libc::EBUSY) => Ok(AffinityOutcome::NotAllowed),
        _ => Err(error),
    }
}
