//! CPU affinity of threads.

use std::fs;
use std::io;

use nodeward_model::{CpuId, Cpumask, NodeId};
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};

/// Returns the CPUs of a node.
///
/// # Errors
/// `NotFound` if there is no such node.
pub fn cpus_of(node: NodeId) -> io::Result<Cpumask> {
    mask(&format!("/sys/devices/system/node/node{node}/cpulist"))
}

/// Returns all CPUs that are online.
pub fn all_cpus() -> io::Result<Cpumask> {
    mask("/sys/devices/system/cpu/online")
}

fn mask(path: &str) -> io::Result<Cpumask> {
    fs::read_to_string(path)?.trim().parse().map_err(io::Error::other)
}

/// Restricts the calling thread, and threads and processes that it starts, to these CPUs.
///
/// # Errors
/// `InvalidInput` if none of them is online.
pub fn confine_this_thread(cpus: &Cpumask) -> io::Result<()> {
    Ok(sched_setaffinity(None, &set(cpus))?)
}

/// Restricts all threads of a process to these CPUs. Threads that end meanwhile are no error.
///
/// # Errors
/// If the process is gone, or belongs to another user.
pub fn confine_process(pid: u32, cpus: &Cpumask) -> io::Result<()> {
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        let tid = thread?.file_name().to_string_lossy().parse().ok().and_then(Pid::from_raw);
        match sched_setaffinity(tid, &set(cpus)) {
            Err(rustix::io::Errno::SRCH) => {}
            other => other?,
        }
    }
    Ok(())
}

fn set(cpus: &Cpumask) -> CpuSet {
    let mut set = CpuSet::new();
    cpus.iter().for_each(|CpuId(cpu)| set.set(cpu as usize));
    set
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::thread::sched_getcpu;

    /// Goal: a thread that is restricted to one CPU runs there, and a process can be released
    /// again.
    #[test]
    fn threads_stay_where_they_are_put() {
        let all = all_cpus().unwrap();
        std::thread::spawn(move || {
            for cpu in all.iter() {
                confine_this_thread(&Cpumask::from_iter([cpu])).unwrap();
                assert_eq!(sched_getcpu(), cpu.0 as usize);
            }
            confine_process(std::process::id(), &all).unwrap();
        })
        .join()
        .unwrap();
        assert!(cpus_of(NodeId(1023)).is_err());
    }
}
