//! A note of the nudge in progress, in a small file. The next start after a kill -9 finds it and
//! restores the affinity of the thread.
//!
//! The note need not reach the disk: a kill leaves it in the page cache, and a machine that reboots
//! has no such thread.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use nodeward_files::{Visibility, open_or_create};
use nodeward_model::Pid;

use super::record::{NudgeRecord, widen};
use super::thread_affinity::{KernelAffinity, ThreadAffinity};
use crate::kernel_file;
use crate::procfs::{boot_id, stat};

/// The start of every note; the number is the format version.
const RECORD_PREFIX: &str = "nodeward-nudge 1";
/// A longer file was not written by nodeward.
const BYTES_MAX: u64 = 1 << 20;

/// A thread whose affinity was left narrowed by a nudge and has been restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestoredThread {
    /// The process.
    pub pid: Pid,
    /// The thread.
    pub tid: u32,
}

/// The file of notes; none until [`NudgeJournal::open`].
#[derive(Debug, Default)]
pub struct NudgeJournal(Mutex<Option<JournalFile>>);

#[derive(Debug)]
struct JournalFile {
    file: File,
    boot_id: String,
}

impl NudgeJournal {
    /// Undoes the nudge of a note in a file, and keeps notes in that file from now on.
    ///
    /// # Errors
    /// If the file cannot be opened or read.
    pub fn open(&self, path: &Path, root: &Path) -> io::Result<Option<RestoredThread>> {
        let file = open_or_create(path, Visibility::Owner)?;
        let mut text = String::new();
        // A file that is not UTF-8 holds no note.
        (&file).take(BYTES_MAX).read_to_string(&mut text).ok();
        let boot = boot_id::read(root).unwrap_or_default();
        let undone =
            parse_record(&text, &boot).and_then(|(started, note)| restore(root, started, &note));
        file.set_len(0)?;
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(JournalFile { file, boot_id: boot });
        Ok(undone)
    }

    /// Runs `act` while its note is in the file; other callers wait. If the note cannot be written
    /// (a full disk), `act` runs without it.
    pub fn record_during<T>(&self, note: &NudgeRecord, act: impl FnOnce() -> T) -> T {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(JournalFile { file, boot_id: boot }) = &*kept {
            let line =
                format_record(started_ticks(Path::new("/"), note.pid).unwrap_or(0), boot, note);
            file.write_all_at(line.as_bytes(), 0).ok();
        }
        let done = act();
        if let Some(JournalFile { file, .. }) = &*kept {
            file.set_len(0).ok();
        }
        done
    }
}

/// Formats a note.
pub fn format_record(started_ticks: u64, boot: &str, note: &NudgeRecord) -> String {
    let NudgeRecord { pid, tid, before, target, unrestricted: everywhere } = note;
    let before =
        if *everywhere { "all ".to_owned() } else { "set ".to_owned() } + &before.to_string();
    format!("{RECORD_PREFIX} {boot} {pid} {started_ticks} {tid} {before} {target} end\n")
}

/// Parses a complete note of this boot; returns it with the start time of its process.
pub fn parse_record(text: &str, boot: &str) -> Option<(u64, NudgeRecord)> {
    let rest = text.strip_prefix(RECORD_PREFIX)?.strip_prefix(' ')?.strip_suffix(" end\n")?;
    let words: Vec<&str> = rest.split(' ').collect();
    let [of_boot, pid, started, tid, kind, before, target] = words[..] else { return None };
    let everywhere = match kind {
        "all" => true,
        "set" => false,
        _ => return None,
    };
    let note = NudgeRecord {
        pid: pid.parse().ok()?,
        tid: tid.parse().ok()?,
        before: before.parse().ok()?,
        target: target.parse().ok()?,
        unrestricted: everywhere,
    };
    (of_boot == boot).then_some((started.parse().ok()?, note))
}

/// Restores the affinity of the thread, if it is the same thread and still has that of the nudge.
fn restore(root: &Path, started: u64, note: &NudgeRecord) -> Option<RestoredThread> {
    let folder: PathBuf = root.join(format!("proc/{}", note.pid));
    let there = folder.join(format!("task/{}", note.tid)).exists();
    if !there || started_ticks(root, note.pid) != Some(started) {
        return None;
    }
    let kernel = KernelAffinity { root, folder: &folder };
    let narrowed = kernel.cpus(note.tid).is_ok_and(|now| now == note.target);
    let widened: io::Result<_> = narrowed.then(|| widen(&kernel, note))?;
    widened.is_ok().then_some(RestoredThread { pid: note.pid, tid: note.tid })
}

fn started_ticks(root: &Path, pid: Pid) -> Option<u64> {
    let text = kernel_file::read(root.join(format!("proc/{pid}/stat"))).ok()?;
    Some(stat::parse(&text)?.started_ticks)
}
