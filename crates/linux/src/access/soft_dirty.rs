//! The source `soft-dirty`: the soft-dirty bits of a process are cleared, so that the first write
//! to each page is a page fault, whose thread and address perf tells.
//!
//! The kernel has one such bit a page. Another user of the bits would lose what it waits for, so a
//! process that has one is left alone: a page whose bit is clear before the first round shows it,
//! or before a later one if the page was written since. A page that is touched first, or comes back
//! from swap, counts as written too.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nodeward_machine::{
    AccessBatch, AccessSampling, AccessSource, AccessSourceKind, ClearSchedule, Error, Result,
};
use nodeward_model::{AccessKind, AccessSample, Mapping, MappingKind, Pid, Range};

use super::observed::ObservedProcess;
use super::page_faults::FaultReader;
use super::source::{PerfSource, thread_cpu_ns};
use super::stall_budget;
use crate::confinement::PrivilegedAction;
use crate::hot::soft_dirty::CLEAR_SOFT_DIRTY;
use crate::kernel_file;
use crate::pagemap::{PAGE_TABLE_PAGES, PagemapWindow, entry};
use crate::process::open_file;
use crate::procfs::maps;

/// Limit on the mappings of which some pages are read before the first round.
const MAPPINGS_READ_MAX: usize = 64;
/// Pages of a round that are read before the next one, and the least that say something.
const WRITTEN_READ: [usize; 2] = [64, 8];
/// Another one clears bits if more than one of so many is clear. Single ones may be: a fault can be
/// a read.
const CLEAR_ONE_IN: usize = 4;

/// The source.
pub struct SoftDirtySource {
    faults: PerfSource<FaultReader>,
    /// The wanted processes, and those that were: their clear bits are this source's own doing.
    processes: BTreeMap<Pid, ClearedProcess>,
    started: Instant,
    /// The CPU time of clearing that is not yet reported.
    cpu_ns: u64,
    /// What was read and not yet taken.
    carried: AccessBatch,
}

/// A process whose bits are cleared.
struct ClearedProcess {
    held: ObservedProcess,
    clear_refs: File,
    pagemap: File,
    schedule: ClearSchedule,
    is_wanted: bool,
    /// Addresses that were written since the bits were cleared, some of them.
    written: Vec<u64>,
    is_used_by_others: bool,
}

impl SoftDirtySource {
    /// Returns a source that observes nothing yet.
    pub fn new() -> Self {
        let reader = || FaultReader { kind: AccessKind::Write };
        Self {
            faults: PerfSource::new(AccessSourceKind::SoftDirty, |_| FaultReader::setup(), reader),
            processes: BTreeMap::new(),
            started: Instant::now(),
            cpu_ns: 0,
            carried: AccessBatch::default(),
        }
    }

    /// Takes hold of the wanted processes that may be cleared; returns their pids.
    fn hold(&mut self, pids: &[Pid]) -> Result<Vec<Pid>> {
        self.processes.retain(|_, process| !process.held.memory_is_gone());
        self.processes.values_mut().for_each(|process| process.is_wanted = false);
        let mut obstacle = None;
        for &pid in pids {
            match self.hold_one(pid) {
                Ok(()) => {}
                Err(error) if error.is_gone() => drop(obstacle.get_or_insert(error)),
                Err(error) => obstacle = Some(error),
            }
        }
        let held: Vec<_> = self.wanted().map(|(&pid, _)| pid).collect();
        obstacle.filter(|_| held.is_empty()).map_or(Ok(held), Err)
    }

    fn hold_one(&mut self, pid: Pid) -> Result<()> {
        stall_budget::check(Path::new("/"), pid, page_bytes())?;
        match self.processes.get_mut(&pid) {
            Some(known) if known.is_used_by_others => return Err(in_use(pid)),
            Some(known) => known.is_wanted = true,
            None => {
                let process = ClearedProcess::open(pid, self.started.elapsed())?;
                self.processes.insert(pid, process);
            }
        }
        Ok(())
    }

    fn wanted(&self) -> impl Iterator<Item = (&Pid, &ClearedProcess)> {
        self.processes.iter().filter(|(_, process)| process.is_wanted)
    }

    /// Begins the rounds that are due. What faulted until then is read at once: after it, only
    /// writes of the new round are.
    fn clear(&mut self) -> Result<()> {
        let (before, now) = (thread_cpu_ns(), self.started.elapsed());
        let mut are_cleared = false;
        for process in self.processes.values_mut().filter(|process| process.is_wanted) {
            are_cleared |= process.clear(now);
        }
        self.cpu_ns += thread_cpu_ns().saturating_sub(before);
        if are_cleared {
            let late = self.faults.take()?;
            merge(&mut self.carried, late);
        }
        Ok(())
    }

    fn remember(&mut self, samples: &[AccessSample]) {
        for sample in samples {
            let process = self.processes.get_mut(&sample.pid);
            let room = process.filter(|it| it.written.len() < WRITTEN_READ[0]);
            room.into_iter().for_each(|it| it.written.push(sample.access.address));
        }
    }
}

impl ClearedProcess {
    /// Takes hold of a process whose bits nobody else clears.
    fn open(pid: Pid, now: Duration) -> Result<Self> {
        let held = ObservedProcess::open(pid)?;
        let path = |name| PathBuf::from(format!("/proc/{pid}/{name}"));
        let (owner, files) = (PrivilegedAction::OwnerFile, PrivilegedAction::Files);
        let clear_refs = open_file(pid, path("clear_refs"), File::options().write(true), owner)?;
        let pagemap = open_file(pid, path("pagemap"), File::options().read(true), files)?;
        let text = kernel_file::read(path("maps")).map_err(|_| Error::Gone(pid))?;
        let mappings = maps::parse(&text, &path("maps"))?;
        if held.memory_is_gone() {
            return Err(Error::Gone(pid));
        }
        if has_clear_bit(&pagemap, &mappings, page_bytes()) {
            return Err(in_use(pid));
        }
        Ok(Self {
            held,
            clear_refs,
            pagemap,
            schedule: ClearSchedule::new(now),
            is_wanted: true,
            written: Vec::new(),
            is_used_by_others: false,
        })
    }

    /// Clears the bits if a round is due; returns whether it does. The process may have grown since
    /// it was checked.
    fn clear(&mut self, now: Duration) -> bool {
        if self.is_used_by_others || !self.schedule.begins_round(now) {
            return false;
        }
        self.is_used_by_others = are_clear(&self.pagemap, &self.written, page_bytes());
        let fits = stall_budget::check(Path::new("/"), self.held.pid(), page_bytes()).is_ok();
        let is_cleared = fits && !self.is_used_by_others;
        if is_cleared {
            // A process that has exited has no bits any more.
            self.clear_refs.write_all(CLEAR_SOFT_DIRTY).ok();
            self.written.clear();
        }
        is_cleared
    }
}

fn merge(batch: &mut AccessBatch, more: AccessBatch) {
    batch.samples.extend(more.samples);
    batch.without_address += more.without_address;
    batch.lost += more.lost;
    batch.threads_unseen = more.threads_unseen;
    batch.cpu_ns += more.cpu_ns;
}

fn in_use(pid: Pid) -> Error {
    Error::Unsupported {
        action: "observing writes",
        reason: format!(
            "something else clears the soft-dirty bits of {pid}, such as CRIU or an earlier \
             nodeward; use the source registers"
        ),
    }
}

fn page_bytes() -> u64 {
    rustix::param::page_size() as u64
}

impl AccessSource for SoftDirtySource {
    fn kind(&self) -> AccessSourceKind {
        AccessSourceKind::SoftDirty
    }

    fn observe(&mut self, sampling: &AccessSampling) -> Result<()> {
        let held = self.hold(&sampling.pids);
        let pids = held.as_ref().map_or(Vec::new(), Clone::clone);
        self.faults.observe(&AccessSampling { pids, ..*sampling })?;
        held.and_then(|_| self.clear())
    }

    fn take(&mut self) -> Result<AccessBatch> {
        let mut batch = std::mem::take(&mut self.carried);
        let news = self.faults.take()?;
        self.remember(&news.samples);
        merge(&mut batch, news);
        self.clear()?;
        Ok(AccessBatch { cpu_ns: batch.cpu_ns + std::mem::take(&mut self.cpu_ns), ..batch })
    }
}

/// Returns true if a page of own memory has a clear bit. In a process whose bits were never cleared
/// all are set, because a new mapping begins with its bit set.
fn has_clear_bit(pagemap: &File, mappings: &[Mapping], page_bytes: u64) -> bool {
    let mut window = PagemapWindow::new();
    let is_own = |one: &&Mapping| {
        matches!(one.kind, MappingKind::Heap | MappingKind::Stack | MappingKind::Anonymous)
    };
    mappings.iter().filter(is_own).take(MAPPINGS_READ_MAX).any(|mapping| {
        let first = first_pages(mapping.range, page_bytes);
        let is_read = window.read(pagemap, first, page_bytes).is_ok();
        is_read && window.entries().any(|entry| entry.is_present() && !entry.is_soft_dirty())
    })
}

/// Returns whether so many of the written pages have a clear bit that somebody cleared it since.
fn are_clear(pagemap: &File, written: &[u64], page_bytes: u64) -> bool {
    let entries = written.iter().filter_map(|&at| entry(pagemap, at, page_bytes).ok());
    let present: Vec<_> = entries.filter(|entry| entry.is_present()).collect();
    let clear = present.iter().filter(|entry| !entry.is_soft_dirty()).count();
    present.len() >= WRITTEN_READ[1] && clear * CLEAR_ONE_IN > present.len()
}

fn first_pages(range: Range, page_bytes: u64) -> Range {
    let end = range.start + PAGE_TABLE_PAGES as u64 * page_bytes;
    Range::new(range.start, range.end.min(end))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    const PAGE: u64 = 4096;
    const PRESENT: u64 = 1 << 63;
    const SOFT_DIRTY: u64 = 1 << 55;

    fn mapping(first: u64, pages: u64, kind: MappingKind) -> Mapping {
        let range = Range::new(first * PAGE, (first + pages) * PAGE);
        let text = format!("{:x}-{:x} rw-p 0 0:0 0\n", range.start, range.end);
        let mut parsed = maps::parse(text.as_bytes(), Path::new("maps")).unwrap();
        Mapping { kind, ..parsed.remove(0) }
    }

    /// Goal: a present page with a clear bit shows another user of the bits, if it is in memory of
    /// the process's own and among the first 512 pages of a mapping; absent pages show nothing.
    #[test]
    fn another_user_leaves_clear_bits() {
        let used = |entries: &[(u64, u64)], mappings: &[Mapping]| {
            let pagemap = tempfile::tempfile().unwrap();
            pagemap.set_len(3000 * 8).unwrap();
            for (page, entry) in entries {
                pagemap.write_all_at(&entry.to_ne_bytes(), page * 8).unwrap();
            }
            has_clear_bit(&pagemap, mappings, PAGE)
        };
        let own = [mapping(16, 1000, MappingKind::Anonymous)];
        assert!(!used(&[], &own));
        assert!(!used(&[(16, PRESENT | SOFT_DIRTY), (20, SOFT_DIRTY), (21, 0)], &own));
        assert!(used(&[(16, PRESENT | SOFT_DIRTY), (17, PRESENT)], &own));
        assert!(!used(&[(16 + 512, PRESENT)], &own), "only the first pages are read");
        assert!(!used(&[(17, PRESENT)], &[mapping(16, 9, MappingKind::File)]));
        let many: Vec<_> =
            (0..65).map(|index| mapping(16 + 2 * index, 1, MappingKind::Anonymous)).collect();
        assert!(used(&[(16 + 2 * 63, PRESENT)], &many));
        assert!(!used(&[(16 + 2 * 64, PRESENT)], &many), "only 64 mappings are read");
    }

    /// Goal: pages that were written in a round and are clear before the next show another user:
    /// three of eight do, two may have been reads, and of fewer than eight nothing is said.
    #[test]
    fn written_pages_keep_their_bit() {
        let used = |clear: u64, present: u64| {
            let pagemap = tempfile::tempfile().unwrap();
            pagemap.set_len(100 * 8).unwrap();
            for page in 0..present {
                let entry = if page < clear { PRESENT } else { PRESENT | SOFT_DIRTY };
                pagemap.write_all_at(&entry.to_ne_bytes(), page * 8).unwrap();
            }
            let written: Vec<u64> = (0..20).map(|page| page * PAGE + 8).collect();
            are_clear(&pagemap, &written, PAGE)
        };
        assert_eq!([used(2, 8), used(3, 8), used(7, 7), used(20, 20)], [false, true, false, true]);
    }
}
