//! The threads of a process: CPU time, CPU and affinity.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use nodeward_model::{CpuId, Cpumask, Pid, ThreadSnapshot};

use super::context::WatchContext;
use super::files::CachedFile;
use crate::load;
use crate::procfs::stat::{self, TaskStat};

/// All threads of a process, in ascending order of their ids.
#[derive(Debug, Default)]
pub struct WatchedThreads(Vec<WatchedThread>);

impl WatchedThreads {
    /// Returns the results of the last sample.
    pub fn snapshots(&self) -> Vec<ThreadSnapshot> {
        let snapshot = |thread: &WatchedThread| {
            let ThreadState { cpu, cpu_time_ns, waited_ns, cpus } = thread.state.clone()?;
            Some(ThreadSnapshot { tid: thread.tid, cpu, cpu_time_ns, waited_ns, cpus })
        };
        self.0.iter().filter_map(snapshot).collect()
    }

    /// Reads the threads of a process that ran. Returns true if the affinity of one of them has
    /// changed, which may be due to a change of its cpuset.
    pub fn refresh(&mut self, pid: Pid, process: &TaskStat, context: &mut WatchContext) -> bool {
        let mut moved = false;
        // The count is unchanged and all threads still exist: none has started, so no listing is
        // needed.
        let same = self.0.len() == process.threads && {
            let looks = self.0.iter_mut().map(|thread| thread.refresh(pid, process, context));
            looks.fold(true, |same, looked| {
                moved |= matches!(looked, Ok(true));
                same & looked.is_ok()
            })
        };
        if !same {
            self.list(pid, context);
            self.0.retain_mut(|thread| thread.refresh(pid, process, context).is_ok());
        }
        moved
    }

    /// Reads the affinity of threads of a process that did not run, of each in its turn.
    pub fn refresh_idle(&mut self, context: &mut WatchContext) {
        let due = self.0.iter_mut().filter(|thread| context.is_due(thread.tid, false));
        let due: Vec<_> = due.collect();
        for thread in due {
            if let (Some(seen), Ok(cpus)) = (&mut thread.state, context.cpus(thread.tid)) {
                seen.cpus = cpus;
            }
        }
    }

    fn list(&mut self, pid: Pid, context: &WatchContext) {
        let mut known: BTreeMap<u32, WatchedThread> =
            self.0.drain(..).map(|thread| (thread.tid, thread)).collect();
        let thread = |tid: Pid| {
            let tid = tid.number();
            let fresh = || WatchedThread { tid, state: None, schedstat: CachedFile::default() };
            known.remove(&tid).unwrap_or_else(fresh)
        };
        self.0 = load::thread_ids(&context.root, pid).into_iter().map(thread).collect();
    }
}

/// A thread that was read, and the file with its times.
#[derive(Debug)]
struct WatchedThread {
    tid: u32,
    state: Option<ThreadState>,
    schedstat: CachedFile,
}

#[derive(Clone, Debug)]
struct ThreadState {
    cpu: CpuId,
    cpu_time_ns: u64,
    waited_ns: u64,
    cpus: Arc<Cpumask>,
}

impl WatchedThread {
    /// Reads the thread again. Returns true if its affinity has changed.
    fn refresh(
        &mut self,
        pid: Pid,
        process: &TaskStat,
        context: &mut WatchContext,
    ) -> io::Result<bool> {
        let counted = context.has_schedstat.then(|| self.counted_ns(pid, context)).transpose()?;
        let before = self.state.as_ref();
        let ran = before.is_none_or(|seen| counted != Some((seen.cpu_time_ns, seen.waited_ns)));
        if !ran && !context.is_due(self.tid, false) {
            return Ok(false);
        }
        let (cpu, ticks) = match self.tid == pid.number() && counted.is_some() {
            true => (process.cpu, 0), // the first thread's CPU stands in the process's file
            false => {
                let own = self.stat(pid, context)?;
                (own.cpu, own.cpu_time_ticks)
            }
        };
        let (cpu_time_ns, waited_ns) =
            counted.unwrap_or_else(|| (ticks.saturating_mul(load::ns_per_tick()), 0));
        let cpus = context.cpus(self.tid)?;
        let moved = before.is_some_and(|seen| seen.cpus != cpus);
        self.state = Some(ThreadState { cpu, cpu_time_ns, waited_ns, cpus });
        Ok(moved)
    }

    /// Returns CPU time and time waiting for a CPU: both are in the same file.
    fn counted_ns(&mut self, pid: Pid, context: &mut WatchContext) -> io::Result<(u64, u64)> {
        let (root, tid) = (&context.root, self.tid);
        let path = || root.join(format!("proc/{pid}/task/{tid}/schedstat"));
        let bytes = self.schedstat.read(path, &context.open_files, &mut context.buffer)?;
        std::str::from_utf8(bytes).ok().and_then(stat::parse_schedstat).ok_or_else(invalid_data)
    }

    fn stat(&self, pid: Pid, context: &mut WatchContext) -> io::Result<TaskStat> {
        let path = context.path(pid, &format!("task/{}/stat", self.tid));
        stat::parse(context.buffer.read_once(path)?).ok_or_else(invalid_data)
    }
}

fn invalid_data() -> io::Error {
    io::ErrorKind::InvalidData.into()
}
