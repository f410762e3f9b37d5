//! Which processes there are, what memory they use and what CPU time their threads got.
//!
//! Processes come and go while we read: one that vanishes is left out, never an error.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use nodeward_machine::{Error, Result};
use nodeward_model::{Pid, ProcessLoad, ThreadTime};

use crate::procfs::{stat, status};
use crate::sys;

/// Threads read of one process; of more, every n-th. Reading one costs about 10 us.
const THREADS_MAX: usize = 256;

/// The `processes_max` processes with most memory of their own, at least `own_bytes_min` bytes
/// each, and the CPU time of their threads now; in ascending order of pids.
///
/// # Errors
/// Only if /proc itself cannot be listed.
pub fn observe(root: &Path, own_bytes_min: u64, processes_max: usize) -> Result<Vec<ProcessLoad>> {
    let mut found = processes(root, own_bytes_min)?;
    found.sort_by_key(|load| (std::cmp::Reverse(load.own_bytes), load.pid));
    found.truncate(processes_max);
    found.sort_by_key(|load| load.pid);
    Ok(observe_again(root, &found))
}

/// The CPU time of the threads of the same processes now; those that are gone are left out.
pub fn observe_again(root: &Path, loads: &[ProcessLoad]) -> Vec<ProcessLoad> {
    let again =
        |load: &ProcessLoad| ProcessLoad { threads: threads(root, load.pid), ..load.clone() };
    loads.iter().map(again).filter(|load| !load.threads.is_empty()).collect()
}

/// CPU time of a process so far, that of threads which ended included, in nanoseconds; zero if it
/// is gone.
pub fn cpu_time_ns(pid: Pid) -> u64 {
    sys::process_time_ns(pid.number()).unwrap_or(0)
}

/// Every process with memory of its own of at least `own_bytes_min` bytes (kernel threads have
/// none), in ascending order of pids, without their threads. `root` is the folder that holds
/// `proc`.
///
/// # Errors
/// Only if /proc itself cannot be listed.
pub fn processes(root: &Path, own_bytes_min: u64) -> Result<Vec<ProcessLoad>> {
    let mut found: Vec<_> = pids(root)?.into_iter().filter_map(|pid| process(root, pid)).collect();
    found.retain(|load| load.own_bytes >= own_bytes_min);
    Ok(found)
}

/// Every pid that is in use now, those of kernel threads and zombies among them. `root` is the
/// folder that holds `proc`.
///
/// # Errors
/// Only if /proc itself cannot be listed.
pub fn pids(root: &Path) -> Result<BTreeSet<Pid>> {
    let path = root.join("proc");
    match numbers(&path) {
        Ok(pids) => Ok(pids.into_iter().collect()),
        Err(source) => Err(Error::Read { path, source }),
    }
}

/// A process without its threads; `None` if it is gone or has no memory.
fn process(root: &Path, pid: Pid) -> Option<ProcessLoad> {
    let status = status::parse(&fs::read(folder(root, pid).join("status")).ok()?);
    let own_bytes = status.own_bytes();
    status.has_memory().then_some(ProcessLoad {
        pid,
        name: status.name,
        own_bytes,
        threads: Vec::new(),
    })
}

/// The numbers of a process's threads now, ascending; none if it is gone.
pub fn thread_ids(root: &Path, pid: Pid) -> Vec<Pid> {
    let mut tids = numbers(&folder(root, pid).join("task")).unwrap_or_default();
    tids.sort_unstable();
    tids
}

/// Reads the CPU time of a process's threads now; empty if it is gone.
pub fn threads(root: &Path, pid: Pid) -> Vec<ThreadTime> {
    let tasks = folder(root, pid).join("task");
    let tids = thread_ids(root, pid);
    let step = tids.len().div_ceil(THREADS_MAX).max(1);
    tids.iter().step_by(step).filter_map(|&tid| thread(&tasks, tid)).collect()
}

fn thread(tasks: &Path, tid: Pid) -> Option<ThreadTime> {
    let folder = tasks.join(tid.to_string());
    let stat = stat::parse(&fs::read(folder.join("stat")).ok()?)?;
    let precise = fs::read_to_string(folder.join("schedstat")).ok();
    let cpu_time_ns = precise
        .and_then(|text| Some(stat::parse_schedstat(&text)?.0))
        .unwrap_or_else(|| stat.cpu_time_ticks.saturating_mul(ns_per_tick()));
    Some(ThreadTime { tid: tid.number(), cpu: stat.cpu, cpu_time_ns })
}

/// Nanoseconds in a clock tick, which /proc counts CPU time in.
pub(crate) fn ns_per_tick() -> u64 {
    1_000_000_000 / rustix::param::clock_ticks_per_second().max(1)
}

fn folder(root: &Path, pid: Pid) -> PathBuf {
    root.join("proc").join(pid.to_string())
}

/// The entries of a folder that are process numbers.
fn numbers(folder: &Path) -> io::Result<Vec<Pid>> {
    let names = fs::read_dir(folder)?.filter_map(std::result::Result::ok).map(|e| e.file_name());
    Ok(names.filter_map(|name| name.to_str()?.parse().ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn we_find_ourselves_and_no_kernel_thread() {
        let all = processes(Path::new("/"), 0).unwrap();
        let us = Pid::new(std::process::id()).unwrap();
        let found = all.iter().find(|load| load.pid == us).expect("our own process");
        assert!(found.own_bytes > 0);
        assert!(all.iter().all(|load| !load.name.starts_with("kthreadd")));
        assert!(!threads(Path::new("/"), us).is_empty());
    }

    #[test]
    fn a_process_that_is_gone_has_no_threads() {
        assert_eq!(threads(Path::new("/"), Pid::new(Pid::LIMIT).unwrap()), []);
    }
}
