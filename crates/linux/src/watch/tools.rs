//! State that every sample uses: the kernel's files and calls, and CPU sets that many threads
//! share.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nodeward_model::{Cpumask, Pid};

use super::files::{Buffer, Shelf};
use super::rights::Rights;
use crate::affinity::{self, Words};
use crate::sys;

/// Samples between two reads of properties that seldom change: half a minute at one sample a
/// second.
pub const LOOKS_BETWEEN: u64 = 32;

/// The calls that a captured /proc cannot answer.
pub trait Calls: Send {
    /// Returns the CPU time of a process so far, in nanoseconds; `None` if there is no such
    /// process.
    fn process_time_ns(&self, pid: Pid) -> Option<u64>;

    /// Returns the affinity of a thread, as words.
    fn affinity<'w>(&self, tid: u32, words: &'w mut Words) -> io::Result<&'w [u64]>;
}

/// The calls of this kernel.
#[derive(Debug)]
pub struct Kernel;

impl Calls for Kernel {
    fn process_time_ns(&self, pid: Pid) -> Option<u64> {
        sys::process_time_ns(pid.number()).ok()
    }

    fn affinity<'w>(&self, tid: u32, words: &'w mut Words) -> io::Result<&'w [u64]> {
        words.read(tid)
    }
}

/// The state that every sample uses.
pub struct Tools {
    /// The root directory of /proc and /sys.
    pub root: PathBuf,
    /// The calls that no file replaces.
    pub calls: Box<dyn Calls>,
    /// The files that stay open.
    pub shelf: Arc<Shelf>,
    /// A buffer for one file.
    pub buffer: Buffer,
    /// The permissions of this process on others.
    pub rights: Rights,
    /// True if schedstat has the CPU time of threads (CONFIG_SCHED_INFO).
    pub has_schedstat: bool,
    /// Bytes in a page.
    pub page_bytes: u64,
    /// The number of this sample.
    pub look: u64,
    masks: HashMap<Box<[u64]>, Arc<Cpumask>>,
    words: Words,
}

impl Tools {
    /// Returns the state for the files below a root.
    pub fn new(root: &Path, calls: Box<dyn Calls>, shelf: Arc<Shelf>, rights: Rights) -> Self {
        Self {
            root: root.to_owned(),
            calls,
            shelf,
            buffer: Buffer::default(),
            rights,
            has_schedstat: root.join("proc/self/schedstat").exists(),
            page_bytes: rustix::param::page_size() as u64,
            look: 0,
            masks: HashMap::new(),
            words: Words::default(),
        }
    }

    /// Starts another sample. CPU sets that no thread has any more are dropped.
    pub fn begin(&mut self) {
        self.look += 1;
        self.masks.retain(|_, mask| Arc::strong_count(mask) > 1);
    }

    /// Returns true if a process or thread is due to be read in full.
    pub fn is_due(&self, number: u32) -> bool {
        (u64::from(number) + self.look).is_multiple_of(LOOKS_BETWEEN)
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
        let mask = Arc::new(affinity::mask(words));
        self.masks.insert(words.into(), Arc::clone(&mask));
        Ok(mask)
    }
}
