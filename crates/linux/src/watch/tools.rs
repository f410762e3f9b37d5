//! What every look at a process uses: the kernel's files and calls, and sets of CPUs that many
//! threads share.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nodeward_model::{Cpumask, Pid};

use super::files::{Buffer, Shelf};
use super::rights::Rights;
use crate::affinity::{self, Words};
use crate::sys;

/// Looks between two that read again what seldom changes: half a minute at one look a second.
pub const LOOKS_BETWEEN: u64 = 32;

/// The calls that a captured /proc cannot answer.
pub trait Calls: Send {
    /// CPU time of a process so far, in nanoseconds; `None` if there is no such process.
    fn process_time_ns(&self, pid: Pid) -> Option<u64>;

    /// The CPUs that a thread may run on, as words.
    fn affinity<'w>(&self, tid: u32, words: &'w mut Words) -> io::Result<&'w [u64]>;
}

/// This kernel's.
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

/// See above.
pub struct Tools {
    /// What /proc and /sys are below.
    pub root: PathBuf,
    /// What no file tells.
    pub calls: Box<dyn Calls>,
    /// Where open files stand.
    pub shelf: Arc<Shelf>,
    /// Room for one file.
    pub buffer: Buffer,
    /// What we may do to others.
    pub rights: Rights,
    /// Whether schedstat tells the CPU time of threads (CONFIG_SCHED_INFO).
    pub has_schedstat: bool,
    /// Bytes in a page.
    pub page_bytes: u64,
    /// The number of this look.
    pub look: u64,
    masks: HashMap<Box<[u64]>, Arc<Cpumask>>,
    words: Words,
}

impl Tools {
    /// For the files below a root.
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

    /// Begins another look. Sets of CPUs that no thread has any more are forgotten.
    pub fn begin(&mut self) {
        self.look += 1;
        self.masks.retain(|_, mask| Arc::strong_count(mask) > 1);
    }

    /// Whether it is the turn of a process or thread to be read again in full.
    pub fn is_due(&self, number: u32) -> bool {
        (u64::from(number) + self.look).is_multiple_of(LOOKS_BETWEEN)
    }

    /// A file of a process.
    pub fn path(&self, pid: Pid, name: &str) -> PathBuf {
        self.root.join(format!("proc/{pid}/{name}"))
    }

    /// The CPUs that a thread may run on.
    ///
    /// # Errors
    /// ESRCH if it ended.
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
