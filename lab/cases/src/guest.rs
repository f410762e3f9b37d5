//! The guest's own files: counters, switches, control groups.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Once;
use std::{fs, io};

pub use nodeward_linux::test_wait::wait_until;
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::case_outcome::CaseSkipped;

/// The unprivileged user that cases run programs as.
pub const UNPRIVILEGED_USER: u32 = 1000;

/// Returns the text of a file that must exist.
pub fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns whether the guest runs a kernel of this series, such as 6.1.
pub fn is_kernel(series: &str) -> bool {
    read("/proc/sys/kernel/osrelease").starts_with(&format!("{series}."))
}

/// Writes a kernel file that must exist.
pub fn write(path: &str, text: &str) {
    fs::write(path, text).unwrap_or_else(|error| panic!("{text} to {path}: {error}"));
}

/// Writes a switch that this kernel may lack.
pub fn write_optional(path: &str, text: &str) -> Result<(), CaseSkipped> {
    fs::write(path, text).map_err(|error| CaseSkipped(format!("{path}: {error}")))
}

/// Returns a counter of /proc/vmstat.
pub fn vmstat(name: &str) -> u64 {
    let text = read("/proc/vmstat");
    let value =
        text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok());
    value.unwrap_or_else(|| panic!("no {name} in /proc/vmstat"))
}

/// Returns a field in kB of a file such as /proc/PID/status.
pub fn kib(path: &str, field: &str) -> u64 {
    let text = read(path);
    let value = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    let value = value.and_then(|value| value.trim().strip_suffix(" kB")?.trim().parse().ok());
    value.unwrap_or_else(|| panic!("no {field} in {path}"))
}

/// Runs a program that must succeed; its standard output is dropped.
pub fn run(program: &str, arguments: &[&str]) {
    let status = Command::new(program).args(arguments).stdout(Stdio::null()).status();
    assert!(status.is_ok_and(|status| status.success()), "{program} {arguments:?}");
}

/// Sets the affinity of this thread, and of processes that it starts.
pub fn pin_this_thread(cpus: &[usize]) {
    sched_setaffinity(None, &set_of(cpus)).expect("the CPUs are ours");
}

/// Sets the affinity of all threads of a process.
pub fn set_affinity(pid: u32, cpus: &[usize]) {
    threads(pid).into_iter().for_each(|tid| set_thread_affinity(tid, cpus));
}

/// Does the same with a process that may end at any time.
pub fn set_affinity_while_it_lives(pid: u32, cpus: &[usize]) {
    for tid in try_threads(pid).unwrap_or_default() {
        let tid = rustix::process::Pid::from_raw(tid.cast_signed());
        match sched_setaffinity(tid, &set_of(cpus)) {
            Err(rustix::io::Errno::SRCH) => {} // it ended
            set => set.expect("the CPUs are ours"),
        }
    }
}

/// Sets the affinity of one thread.
pub fn set_thread_affinity(tid: u32, cpus: &[usize]) {
    let tid = rustix::process::Pid::from_raw(tid.cast_signed());
    sched_setaffinity(tid, &set_of(cpus)).expect("the thread is there");
}

fn set_of(cpus: &[usize]) -> CpuSet {
    let mut set = CpuSet::new();
    cpus.iter().for_each(|&cpu| set.set(cpu));
    set
}

/// Returns the distinct affinities of a process's threads.
pub fn affinities(pid: u32) -> BTreeSet<String> {
    let of = |tid: u32| {
        let text = read(&format!("/proc/{tid}/status"));
        let list = text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:\t"));
        list.expect("a list of CPUs").to_owned()
    };
    threads(pid).into_iter().map(of).collect()
}

/// Returns the last CPU of a thread.
pub fn last_cpu(tid: &str) -> u64 {
    stat(tid, 39)
}

/// Returns the CPU time of a thread, in hundredths of a second.
pub fn cpu_ticks(tid: &str) -> u64 {
    stat(tid, 14) + stat(tid, 15)
}

/// Returns a field of /proc/TID/stat, by its number in proc(5).
fn stat(tid: &str, field: usize) -> u64 {
    let text = read(&format!("/proc/{tid}/stat"));
    // The fields after the name begin with the third.
    let fields = text.rsplit_once(") ").map(|(_, rest)| rest.split(' '));
    let value = fields.and_then(|mut rest| rest.nth(field - 3)?.parse().ok());
    value.unwrap_or_else(|| panic!("no field {field} in {text}"))
}

/// Returns the tids of a process's threads.
pub fn threads(pid: u32) -> Vec<u32> {
    try_threads(pid).expect("the process is there")
}

fn try_threads(pid: u32) -> io::Result<Vec<u32>> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task"))?.flatten();
    Ok(tasks.filter_map(|task| task.file_name().to_str()?.parse().ok()).collect())
}

/// Loads the drivers that were brought along: of swap and of disks.
pub fn load_drivers() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let drivers = fs::read_dir("/lib/trial-drivers").into_iter().flatten().flatten();
        let mut drivers: Vec<_> = drivers.map(|driver| driver.path()).collect();
        drivers.sort();
        for driver in drivers.iter().map(|driver| driver.to_string_lossy()) {
            // 320 MiB each: mkfs.xfs requires at least 300. Only written blocks take memory.
            let sizes: &[&str] = if driver.ends_with("-brd.ko") { &DISKS } else { &[] };
            run("insmod", &[&[&*driver], sizes].concat());
        }
    });
}

const DISKS: [&str; 2] = ["rd_nr=2", "rd_size=327680"];

/// Sets the size of a node's pool of 2 MiB pages. Returns the size that was reached.
pub fn huge_pages(node: u32, wanted: u64) -> u64 {
    let path = pool(node, "nr_hugepages");
    write(&path, &wanted.to_string());
    read(&path).trim().parse().expect("a number")
}

/// Returns the number of free pages in a node's pool of 2 MiB pages.
pub fn free_huge_pages(node: u32) -> u64 {
    read(&pool(node, "free_hugepages")).trim().parse().expect("a number")
}

fn pool(node: u32, file: &str) -> String {
    format!("/sys/devices/system/node/node{node}/hugepages/hugepages-2048kB/{file}")
}

/// A cgroup that allows memory from some nodes only.
#[derive(Debug)]
pub struct Cpuset {
    folder: String,
}

impl Cpuset {
    /// Creates a group below the root.
    pub fn new(name: &str, nodes: &str) -> Result<Self, CaseSkipped> {
        let folder = control_group(name, "cpuset")?;
        write(&format!("{folder}/cpuset.mems"), nodes);
        Ok(Self { folder })
    }

    /// Puts a process into it.
    pub fn add_process(&self, pid: u32) {
        write(&format!("{}/cgroup.procs", self.folder), &pid.to_string());
    }
}

/// A cgroup that limits memory. This process is in it until the value is dropped.
#[derive(Debug)]
pub struct MemoryCgroup {
    folder: String,
}

impl MemoryCgroup {
    /// Creates a group below the root and enters it; it has no limit yet.
    pub fn enter(name: &str) -> Result<Self, CaseSkipped> {
        let folder = control_group(name, "memory")?;
        write(&format!("{folder}/cgroup.procs"), "0");
        Ok(Self { folder })
    }

    /// Limits the group to its present use plus a number of bytes.
    pub fn limit_above_usage(&self, bytes: u64) {
        self.limit("memory.max", bytes);
    }

    /// Makes the kernel throttle the group above its present use plus a number of bytes.
    pub fn throttle_above_usage(&self, bytes: u64) {
        self.limit("memory.high", bytes);
    }

    fn limit(&self, file: &str, bytes: u64) {
        let used: u64 =
            read(&format!("{}/memory.current", self.folder)).trim().parse().expect("a number");
        write(&format!("{}/{file}", self.folder), &(used + bytes).to_string());
    }
}

impl Drop for MemoryCgroup {
    fn drop(&mut self) {
        write(&format!("{ROOT_GROUP}/cgroup.procs"), "0");
        fs::remove_dir(&self.folder).expect("nobody is in the group any more");
    }
}

const ROOT_GROUP: &str = "/sys/fs/cgroup";

/// Creates a cgroup below the root with a controller. Returns its directory.
pub fn control_group(name: &str, controller: &str) -> Result<String, CaseSkipped> {
    if !Path::new(ROOT_GROUP).join("cgroup.controllers").exists() {
        return Err(CaseSkipped("control groups of version 2 are not mounted".to_owned()));
    }
    write(&format!("{ROOT_GROUP}/cgroup.subtree_control"), &format!("+{controller}"));
    let folder = format!("{ROOT_GROUP}/{name}");
    fs::create_dir_all(&folder).expect("a control group can be made");
    Ok(folder)
}
