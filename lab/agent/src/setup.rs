//! The environment that programs expect: kernel file systems, drivers, a clock, some entropy.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use nodeward_lab_agent::protocol::Request;
use rustix::mount::{MountFlags, mount};
use rustix::system::finit_module;
use rustix::time::{ClockId, Timespec, clock_settime};

/// Kernel file systems: type and mount point. The first three are required, the rest optional.
const MOUNTS: [(&str, &str); 10] = [
    ("proc", "/proc"),
    ("sysfs", "/sys"),
    ("devtmpfs", "/dev"),
    ("devpts", "/dev/pts"),
    ("tmpfs", "/dev/shm"),
    ("tmpfs", "/tmp"),
    ("cgroup2", "/sys/fs/cgroup"),
    ("debugfs", "/sys/kernel/debug"),
    ("tracefs", "/sys/kernel/tracing"),
    ("bpf", "/sys/fs/bpf"),
];
const NEEDED: usize = 3;
/// Directory of the host's drivers, numbered in loading order.
const DRIVERS: &str = "/lib/lab-drivers";
const NS_PER_S: u64 = 1_000_000_000;

/// Mounts the kernel's file systems, loads the host's drivers, brings the loopback device up.
pub fn mount_and_load() -> Result<()> {
    for (index, (kind, place)) in MOUNTS.iter().enumerate() {
        let mounted = mount_one(kind, place);
        if index < NEEDED {
            mounted.with_context(|| format!("cannot mount {kind} at {place}"))?;
        }
    }
    fs::create_dir_all("/root")?;
    load_drivers(Path::new(DRIVERS))?;
    bring_up_loopback();
    Ok(())
}

fn mount_one(kind: &str, place: &str) -> Result<()> {
    fs::create_dir_all(place)?;
    Ok(mount(kind, place, kind, MountFlags::empty(), None)?)
}

fn load_drivers(dir: &Path) -> Result<()> {
    let Ok(entries) = fs::read_dir(dir) else { return Ok(()) };
    let mut drivers: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    drivers.sort();
    for driver in drivers {
        load(&driver).with_context(|| format!("cannot load {}", driver.display()))?;
    }
    Ok(())
}

fn load(driver: &Path) -> Result<()> {
    match finit_module(File::open(driver)?, &CString::default(), 0) {
        Err(rustix::io::Errno::EXIST) => Ok(()),
        other => Ok(other?),
    }
}

/// Brings the loopback device up, for programs that connect to themselves. The lab does not need
/// it, so a failure is only reported.
fn bring_up_loopback() {
    let done = Command::new("/bin/busybox").args(["ip", "link", "set", "lo", "up"]).status();
    if !done.is_ok_and(|status| status.success()) {
        eprintln!("nodeward-lab-init: the loopback device stays down");
    }
}

/// Sets the clock and adds the host's random bytes, because a restored guest has old ones.
pub fn set_clock_and_entropy(request: &Request) -> Result<()> {
    let now = Timespec {
        tv_sec: i64::try_from(request.now_ns / NS_PER_S)?,
        tv_nsec: i64::try_from(request.now_ns % NS_PER_S)?,
    };
    clock_settime(ClockId::Realtime, now).context("cannot set the clock")?;
    let mut pool = OpenOptions::new().write(true).open("/dev/urandom")?;
    pool.write_all(&request.seed).context("cannot seed /dev/urandom")
}
