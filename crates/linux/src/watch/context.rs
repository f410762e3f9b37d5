//! State that every sample uses: the kernel's files and calls, and CPU sets that many threads
//! share.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nodeward_model::{Cpumask, Pid};

use super::files::{FileBuffer, OpenFileBudget};
use super::permissions::WatchPermissions;
use crate::affinity::{self, AffinityBuffer};
use crate::sys;

/// Samples between two reads of properties that seldom change: half a minute at one sample a
/// second.
pub const FULL_READ_INTERVAL: u64 = 32;

/// The same for what does not run: four minutes. Nobody acts on it; it is read as soon as it runs.
pub const IDLE_READ_INTERVAL: u64 = 8 * FULL_READ_INTERVAL;

/// The calls that a captured /proc cannot answer.
pub trait KernelCalls: Send {
    /// Returns the CPU time of a process so far, in nanoseconds; `None` if there is no such
    /// process.
    fn process_time_ns(&self, pid: Pid) -> Option<u64>;

    /// Returns the affinity of a thread, as words.
    fn affinity<'w>(&self, tid: u32, words: &'w mut AffinityBuffer) -> io::Result<&'w [u64]>;
}

/// The calls of this kernel.
#[derive(Debug)]
pub struct RealCalls;

impl KernelCalls for RealCalls {
    fn process_time_ns(&self, pid: Pid) -> Option<u64> {
        sys::process_time_ns(pid.number()).ok()
    }

    fn affinity<'w>(&self, tid: u32, words: &'w mut AffinityBuffer) -> io::Result<&'w [u64]> {
        words.read(tid)
    }
}

/// The state that every sample uses.
pub struct WatchContext {
    /// The root directory of /proc and /sys.
    pub root: PathBuf,
    /// The calls that no file replaces.
    pub calls: Box<dyn KernelCalls>,
    /// The files that stay open.
    pub open_files: Arc<OpenFileBudget>,
    /// A buffer for one file.
    pub buffer: FileBuffer,
    /// The permissions of this process on others.
    pub permissions: WatchPermissions,
    /// True if schedstat has the CPU time of threads (CONFIG_SCHED_INFO).
    pub has_schedstat: bool,
    /// Bytes in a page.
    pub page_bytes: u64,
    /// The number of this sample.
    pub snapshot_number: u64,
    masks: HashMap<Box<[u64]>, Arc<Cpumask>>,
    words: AffinityBuffer,
}

impl WatchContext {
    /// Returns the state for the files below a root.
    pub fn new(
        root: &Path,
        calls: Box<dyn KernelCalls>,
        open_files: Arc<OpenFileBudget>,
        rights: WatchPermissions,
    ) -> Self {
        Self {
            root: root.to_owned(),
            calls,
            open_files,
            buffer: FileBuffer::default(),
            permissions: rights,
            has_schedstat: root.join("proc/self/schedstat").exists(),
            page_bytes: rustix::param::page_size() as u64,
            snapshot_number: 0,
            masks: HashMap::new(),
            words: AffinityBuffer::default(),
        }
    }

    /// Starts another sample. CPU sets that no thread has any more are dropped.
    pub fn begin_snapshot(&mut self) {
        self.snapshot_number += 1;
        self.masks.retain(|_, mask| Arc::strong_count(mask) > 1);
    }

    /// Returns true if it is the turn of a process or thread to be read in full.
    pub fn is_due(&self, number: u32, runs: bool) -> bool {
        let interval = if runs { FULL_READ_INTERVAL } else { IDLE_READ_INTERVAL };
        (u64::from(number) + self.snapshot_number).is_multiple_of(interval)
    }

    /// Returns the path of a file of a process.
    pub fn path(&self, pid: Pid, name: &str) -> PathBuf {
        self.root.join(format!("proc/{pid}/{name}"))
    }

    /// Returns the affinity of a thread.
    ///
    /// # Errors
    /// ESRCH if it has exited.
    pub fn cpus(&mut self, tid: u32) -> io::Result<Arc<Cpumask>> {
        let words = self.calls.affinity(tid, &mut self.words)?;
        if let Some(mask) = self.masks.get(words) {
            return Ok(Arc::clone(mask));
        }
        let mask = Arc::new(affinity::from_words(words));
        self.masks.insert(words.into(), Arc::clone(&mask));
        Ok(mask)
    }
}
