//! Lists the processes, their memory and the CPU time of their threads.
//!
//! Processes start and exit during the reads: one that vanishes is left out, never an error.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use nodeward_machine::{Error, Result};
use nodeward_model::{Pid, ProcessLoad, ThreadCpuTime};

use crate::kernel_file;
use crate::procfs::{stat, status};
use crate::sys;

/// Limit on the threads read of one process; of more threads, every n-th is read. Reading one costs
/// about 10 us.
const THREADS_MAX: usize = 256;

/// Returns the `processes_max` processes with the most memory of their own, at least
/// `own_bytes_min` bytes each, with the present CPU time of their threads, in ascending order of
/// pids.
///
/// # Errors
/// Only if /proc itself cannot be listed.
pub fn sample(root: &Path, own_bytes_min: u64, processes_max: usize) -> Result<Vec<ProcessLoad>> {
    let mut found = processes(root, own_bytes_min)?;
    found.sort_by_key(|load| (std::cmp::Reverse(load.non_file_bytes), load.pid));
    found.truncate(processes_max);
    found.sort_by_key(|load| load.pid);
    Ok(resample(root, &found))
}

/// Returns the present CPU time of the threads of the same processes; exited processes are left
/// out.
pub fn resample(root: &Path, loads: &[ProcessLoad]) -> Vec<ProcessLoad> {
    let again =
        |load: &ProcessLoad| ProcessLoad { threads: threads(root, load.pid), ..load.clone() };
    loads.iter().map(again).filter(|load| !load.threads.is_empty()).collect()
}

/// Returns the CPU time of a process so far, that of exited threads included, in nanoseconds; zero
/// if the process is gone.
pub fn cpu_time_ns(pid: Pid) -> u64 {
    sys::process_time_ns(pid.number()).unwrap_or(0)
}

/// Returns every process with at least `own_bytes_min` bytes of memory of its own (kernel threads
/// have none), in ascending order of pids, without the threads. `root` is the directory that holds
/// `proc`.
///
/// # Errors
/// Only if /proc itself cannot be listed.
pub fn processes(root: &Path, own_bytes_min: u64) -> Result<Vec<ProcessLoad>> {
    let mut found: Vec<_> = pids(root)?.into_iter().filter_map(|pid| process(root, pid)).collect();
    found.retain(|load| load.non_file_bytes >= own_bytes_min);
    Ok(found)
}

/// Returns every pid in use, those of kernel threads and zombies included. `root` is the directory
/// that holds `proc`.
///
/// # Errors
/// Only if /proc itself cannot be listed.
pub fn pids(root: &Path) -> Result<BTreeSet<Pid>> {
    let path = root.join("proc");
    match pids_in(&path) {
        Ok(pids) => Ok(pids.into_iter().collect()),
        Err(source) => Err(Error::Read { path, source }),
    }
}

/// Reads a process without its threads; `None` if it is gone or has no memory.
fn process(root: &Path, pid: Pid) -> Option<ProcessLoad> {
    let status = status::parse(&kernel_file::read(folder(root, pid).join("status")).ok()?);
    let own_bytes = status.non_file_bytes();
    status.has_memory().then_some(ProcessLoad {
        pid,
        name: status.name,
        non_file_bytes: own_bytes,
        threads: Vec::new(),
    })
}

/// Returns the ids of a process's threads, ascending; none if it is gone.
pub fn thread_ids(root: &Path, pid: Pid) -> Vec<Pid> {
    let mut tids = pids_in(&folder(root, pid).join("task")).unwrap_or_default();
    tids.sort_unstable();
    tids
}

/// Reads the CPU time of a process's threads now; empty if it is gone.
pub fn threads(root: &Path, pid: Pid) -> Vec<ThreadCpuTime> {
    let tasks = folder(root, pid).join("task");
    let tids = thread_ids(root, pid);
    let step = tids.len().div_ceil(THREADS_MAX).max(1);
    tids.iter().step_by(step).filter_map(|&tid| thread(&tasks, tid)).collect()
}

fn thread(tasks: &Path, tid: Pid) -> Option<ThreadCpuTime> {
    let folder = tasks.join(tid.to_string());
    let stat = stat::parse(&kernel_file::read(folder.join("stat")).ok()?)?;
    let precise = kernel_file::read_to_string(folder.join("schedstat")).ok();
    let cpu_time_ns = precise
        .and_then(|text| Some(stat::parse_schedstat(&text)?.0))
        .unwrap_or_else(|| stat.cpu_time_ticks.saturating_mul(ns_per_tick()));
    Some(ThreadCpuTime { tid: tid.number(), cpu: stat.cpu, cpu_time_ns })
}

/// Returns the nanoseconds in a clock tick, the unit of CPU time in /proc.
pub(crate) fn ns_per_tick() -> u64 {
    1_000_000_000 / rustix::param::clock_ticks_per_second().max(1)
}

fn folder(root: &Path, pid: Pid) -> PathBuf {
    root.join("proc").join(pid.to_string())
}

/// Returns the entries of a directory that are pids.
fn pids_in(folder: &Path) -> io::Result<Vec<Pid>> {
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
        assert!(found.non_file_bytes > 0);
        assert!(all.iter().all(|load| !load.name.starts_with("kthreadd")));
        assert!(!threads(Path::new("/"), us).is_empty());
    }

    #[test]
    fn a_process_that_is_gone_has_no_threads() {
        assert_eq!(threads(Path::new("/"), Pid::new(Pid::LIMIT).unwrap()), []);
    }
}
