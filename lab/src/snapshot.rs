//! Snapshots of booted machines, so that a run starts where booting ends.
//!
//! A snapshot is a directory with the machine's memory in files and the rest of its state in
//! another. It is created once under a lock, and then only read; every run copies the pages that it
//! writes.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail};

use crate::cache::{LabCache, file_fingerprint, hash_name, lock};
use crate::memory_files;
use crate::qemu::{self, GuestMemory, QemuMachine};
use crate::vm::Vm;

/// Maximum number of snapshots; the least recently used ones are removed.
const SNAPSHOTS_MAX: usize = 12;
/// Delay between the guest's report and the snapshot, so that the kernel's late boot work is done.
const SETTLE_TIME: Duration = Duration::from_millis(300);
/// Number of attempts for a snapshot that vanishes between creation and use.
const TRIES: u32 = 3;
/// Version of the format; changes when snapshots of older labs no longer fit.
const FORMAT: u32 = 1;

const KEY: &str = "key";
const STATE: &str = "state";

/// A snapshot that is kept while this value lives.
#[derive(Debug)]
pub struct GuestSnapshot {
    dir: PathBuf,
    _in_use: File,
}

impl GuestSnapshot {
    /// Returns the snapshot of a machine, created if missing.
    pub fn find_or_make(cache: &LabCache, machine: &QemuMachine, hypervisor: &str) -> Result<Self> {
        let key = key(machine, hypervisor)?;
        let name = hash_name(&key);
        for _ in 0..TRIES {
            if let Some(snapshot) = Self::find(cache, &name, &key)? {
                return Ok(snapshot);
            }
            let _lock = lock(&lock_path(cache, &name)?)?;
            let dir = cache.snapshots()?.join(&name);
            if !is_complete(&dir, &key) {
                make(machine, &dir, &key).context("cannot make a snapshot")?;
                evict(cache, SNAPSHOTS_MAX)?;
            }
        }
        bail!("the snapshot vanishes as soon as it is made: is another lab cleaning?")
    }

    fn find(cache: &LabCache, name: &str, key: &str) -> Result<Option<Self>> {
        let in_use = File::options().create(true).append(true).open(lock_path(cache, name)?)?;
        in_use.lock_shared()?;
        let mut dirs = cache.snapshot_dirs().into_iter().map(|place| place.join(name));
        let Some(dir) = dirs.find(|dir| is_complete(dir, key)) else { return Ok(None) };
        File::open(dir.join(KEY))?.set_modified(SystemTime::now())?;
        Ok(Some(Self { dir, _in_use: in_use }))
    }

    /// Starts a machine that resumes where the snapshot was taken.
    pub fn restore(&self, machine: &QemuMachine) -> Result<Vm> {
        let memory = GuestMemory::Restored(self.dir.clone());
        let mut vm = Vm::start(&QemuMachine { memory, ..machine.clone() })?;
        let uri = format!("exec:cat {}", quoted(&self.dir.join(STATE)));
        match vm.monitor.restore(&uri) {
            Ok(()) => Ok(vm),
            Err(why) => Err(vm.with_console_tail(why, "the snapshot cannot be restored")),
        }
    }

    /// Frees the memory by which a run has grown the snapshot's files.
    pub fn trim(&self) -> Result<()> {
        memory_files::trim(&self.dir).context("cannot trim a snapshot")
    }
}

/// Returns everything that a snapshot depends on. Counting, the place of its memory and the threads
/// that emulate its CPUs are not part of it.
fn key(machine: &QemuMachine, hypervisor: &str) -> Result<String> {
    let memory = GuestMemory::Private;
    let plain = QemuMachine {
        memory,
        populate: false,
        take_turns: false,
        counter: None,
        ..machine.clone()
    };
    let arguments = qemu::command_line(&plain)?.join(&OsString::from(" "));
    let arguments = arguments.to_string_lossy();
    let (kernel, initramfs) =
        (file_fingerprint(machine.kernel)?, file_fingerprint(machine.initramfs)?);
    Ok(format!("{FORMAT}\n{hypervisor}\n{kernel}\n{initramfs}\n{arguments}\n"))
}

fn lock_path(cache: &LabCache, name: &str) -> Result<PathBuf> {
    Ok(cache.dir("locks")?.join(name))
}

/// Returns whether a snapshot is complete and matches. The key is written last, and compared in
/// full, because names may collide.
fn is_complete(dir: &Path, key: &str) -> bool {
    fs::read_to_string(dir.join(KEY)).is_ok_and(|found| found == key)
}

fn make(machine: &QemuMachine, dir: &Path, key: &str) -> Result<()> {
    if dir.exists() {
        fs::remove_dir_all(dir)?;
    }
    fs::create_dir_all(dir)?;
    let made = record(machine, dir).and_then(|()| Ok(fs::write(dir.join(KEY), key)?));
    if made.is_err() {
        fs::remove_dir_all(dir)?;
    }
    made
}

fn record(machine: &QemuMachine, dir: &Path) -> Result<()> {
    let memory = GuestMemory::Recorded(dir.to_owned());
    let mut vm =
        Vm::start(&QemuMachine { memory, populate: false, counter: None, ..machine.clone() })?;
    vm.await_ready()?;
    std::thread::sleep(SETTLE_TIME);
    let uri = format!("exec:cat > {}", quoted(&dir.join(STATE)));
    vm.monitor.save(&uri)?;
    drop(vm);
    memory_files::record(dir)
}

/// Quotes a path as one word of a shell.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

/// Removes all snapshots but the `kept` most recently used ones, and none that a run is using.
pub fn evict(cache: &LabCache, kept: usize) -> Result<()> {
    let mut found = Vec::new();
    for dir in cache.snapshot_dirs().iter().filter_map(|place| fs::read_dir(place).ok()) {
        found.extend(dir.flatten().map(|entry| (last_used(&entry.path()), entry.path())));
    }
    found.sort();
    let surplus = found.len().saturating_sub(kept);
    for (_, dir) in &found[..surplus] {
        let name = dir.file_name().unwrap_or_default().to_string_lossy();
        let lock = File::options().create(true).append(true).open(lock_path(cache, &name)?)?;
        if lock.try_lock().is_ok() {
            fs::remove_dir_all(dir).with_context(|| format!("cannot remove {}", dir.display()))?;
        }
    }
    Ok(())
}

fn last_used(dir: &Path) -> SystemTime {
    let key = fs::metadata(dir.join(KEY)).and_then(|meta| meta.modified());
    key.unwrap_or(SystemTime::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_path_is_one_word_of_a_shell() {
        assert_eq!(quoted(Path::new("/a b/c")), "'/a b/c'");
        assert_eq!(quoted(Path::new("/it's")), r"'/it'\''s'");
    }
}
