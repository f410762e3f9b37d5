//! A watched process, and the data that makes its next sample cheap.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use nodeward_model::{Name, Nodemask, Pid, ProcessSnapshot};

use super::context::{FULL_READ_INTERVAL, WatchContext};
use super::files::CachedFile;
use super::threads::WatchedThreads;
use crate::procfs::stat::{self, TaskStat};
use crate::procfs::status::{self, Status};
use crate::{cgroup, load};

/// The kinds of memory are read again when the shared or file-mapped part has changed by more than
/// one part in this many of all memory.
const SHARED_CHANGE_ONE_IN: u64 = 64;

/// A watched process.
#[derive(Debug)]
pub struct ProcessRecord {
    pid: Pid,
    name: Name,
    started_ticks: u64,
    children_cpu_time_ticks: u64,
    memory: MemoryUse,
    memory_nodes: Option<Nodemask>,
    user: Option<u32>,
    group: Option<Arc<PathBuf>>,
    /// Number of the sample that read the long files last.
    read_at: u64,
    stat_file: CachedFile,
    threads: WatchedThreads,
}

/// Memory in use. The kernel's short file (statm) has the total and the part that is shared or
/// mapped from files; the long one (status) tells shared memory and files apart.
#[derive(Clone, Copy, Debug, Default)]
struct MemoryUse {
    resident_pages: u64,
    shared_pages: u64,
    /// Own memory at the last read of the long file.
    non_file_bytes: u64,
    /// Anonymous pages at that time.
    anonymous_pages: u64,
    /// Anonymous pages now.
    anonymous_pages_now: u64,
}

impl MemoryUse {
    fn non_file_bytes(&self, page_bytes: u64) -> u64 {
        let bytes = |pages: u64| pages.saturating_mul(page_bytes);
        let grown = self.non_file_bytes.saturating_add(bytes(self.anonymous_pages_now));
        grown.saturating_sub(bytes(self.anonymous_pages))
    }
}

/// The result of the first read of a pid.
#[derive(Debug)]
pub struct FirstRead {
    /// Its stat file.
    pub stat: TaskStat,
    /// Its name.
    pub name: Name,
    file: CachedFile,
}

impl FirstRead {
    /// Reads the process that has a pid now.
    ///
    /// # Errors
    /// If it is gone.
    pub fn read(pid: Pid, context: &mut WatchContext) -> io::Result<Self> {
        let mut file = CachedFile::default();
        let (stat, name) = read_stat(pid, &mut file, context)?;
        Ok(Self { stat, name, file })
    }
}

impl ProcessRecord {
    /// Starts to watch it.
    ///
    /// # Errors
    /// If it is gone.
    pub fn begin(pid: Pid, first: FirstRead, context: &mut WatchContext) -> io::Result<Self> {
        let FirstRead { stat, name, file } = first;
        let mut process = Self {
            pid,
            name,
            started_ticks: stat.started_ticks,
            children_cpu_time_ticks: stat.children_cpu_time_ticks,
            memory: MemoryUse::default(),
            memory_nodes: None,
            user: None,
            group: None,
            read_at: 0,
            stat_file: file,
            threads: WatchedThreads::default(),
        };
        process.read_in_full(context)?;
        process.threads.refresh(pid, &stat, context);
        Ok(process)
    }

    /// Reads a process that ran again. Returns true if it is still the same process with memory.
    pub fn refresh(&mut self, context: &mut WatchContext) -> bool {
        let Ok((stat, name)) = read_stat(self.pid, &mut self.stat_file, context) else {
            return false;
        };
        if stat.started_ticks != self.started_ticks || !stat.has_memory {
            return false;
        }
        let renamed = name != self.name; // by exec, for one
        self.name = name;
        self.children_cpu_time_ticks = stat.children_cpu_time_ticks;
        let moved = self.threads.refresh(self.pid, &stat, context);
        if renamed || moved || self.is_due(context) {
            return self.read_in_full(context).is_ok();
        }
        stat.resident_pages == self.memory.resident_pages || self.read_memory(context).is_ok()
    }

    /// Reads the properties of a process that did not run which others may have changed. Returns
    /// true if it still exists.
    pub fn refresh_idle(&mut self, context: &mut WatchContext) -> bool {
        self.threads.refresh_idle(context);
        !context.is_due(self.pid.number(), false) || self.refresh(context)
    }

    /// Returns true if the long files of it, which runs, are to be read: in its turn, or because it
    /// did not run in its last turns.
    fn is_due(&self, context: &WatchContext) -> bool {
        context.is_due(self.pid.number(), true)
            || context.snapshot_number >= self.read_at + FULL_READ_INTERVAL
    }

    /// Returns its name.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// Returns the user that it runs as; `None` where the kernel does not report it.
    pub fn user(&self) -> Option<u32> {
        self.user
    }

    /// Returns its control group, as in /proc/PID/cgroup.
    pub fn group(&self) -> Option<&Arc<PathBuf>> {
        self.group.as_ref()
    }

    /// Returns the result of the last sample. Where the kernel has no cpusets, its memory may be on
    /// any of `nodes`.
    pub fn snapshot(
        &self,
        cpu_time_ns: u64,
        frozen: bool,
        context: &WatchContext,
        nodes: &Nodemask,
    ) -> ProcessSnapshot {
        ProcessSnapshot {
            pid: self.pid,
            name: self.name.clone(),
            started_ticks: self.started_ticks,
            cpu_time_ns,
            children_cpu_time_ns: self.children_cpu_time_ticks.saturating_mul(load::ns_per_tick()),
            non_file_bytes: self.memory.non_file_bytes(context.page_bytes),
            memory_nodes: self.memory_nodes.as_ref().unwrap_or(nodes).clone(),
            frozen,
            threads: self.threads.snapshots(),
        }
    }

    /// Reads the long files: user, cpuset, memory by kind, control group.
    fn read_in_full(&mut self, context: &mut WatchContext) -> io::Result<()> {
        self.read_at = context.snapshot_number;
        let path = context.path(self.pid, "status");
        let status = status::parse(context.buffer.read_once(path)?);
        self.memory = self.memory_use(&status, context)?;
        (self.user, self.memory_nodes) = (status.user, status.memory_nodes);
        let path = context.path(self.pid, "cgroup");
        // Kernels without control groups have no such file.
        let group = context.buffer.read_once(path).ok().and_then(cgroup::group_path_v2);
        if self.group.as_deref() != group.as_ref() {
            self.group = group.map(Arc::new);
        }
        Ok(())
    }

    fn memory_use(&self, status: &Status, context: &mut WatchContext) -> io::Result<MemoryUse> {
        let (resident_pages, shared_pages) = self.read_pages(context)?;
        let anonymous_pages = resident_pages.saturating_sub(shared_pages);
        Ok(MemoryUse {
            resident_pages,
            shared_pages,
            non_file_bytes: status.non_file_bytes(),
            anonymous_pages,
            anonymous_pages_now: anonymous_pages,
        })
    }

    fn read_memory(&mut self, context: &mut WatchContext) -> io::Result<()> {
        let (resident_pages, shared_pages) = self.read_pages(context)?;
        if shared_pages.abs_diff(self.memory.shared_pages) > resident_pages / SHARED_CHANGE_ONE_IN {
            return self.read_in_full(context);
        }
        self.memory.resident_pages = resident_pages;
        self.memory.anonymous_pages_now = resident_pages.saturating_sub(shared_pages);
        Ok(())
    }

    /// Returns the pages in RAM, and the part that is shared or mapped from files.
    fn read_pages(&self, context: &mut WatchContext) -> io::Result<(u64, u64)> {
        let bytes = context.buffer.read_once(context.path(self.pid, "statm"))?;
        let mut numbers = std::str::from_utf8(bytes).unwrap_or_default().split(' ').skip(1);
        let mut number = || numbers.next()?.parse().ok();
        let pages = number().zip(number());
        pages.ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

fn read_stat(
    pid: Pid,
    file: &mut CachedFile,
    context: &mut WatchContext,
) -> io::Result<(TaskStat, Name)> {
    let root = &context.root;
    let path = || root.join(format!("proc/{pid}/stat"));
    let bytes = file.read(path, &context.open_files, &mut context.buffer)?;
    let read = stat::parse(bytes).zip(stat::name(bytes));
    let (stat, name) = read.ok_or(io::ErrorKind::InvalidData)?;
    Ok((stat, name.into()))
}
