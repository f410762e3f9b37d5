//! A process of this kernel, held by a pidfd and by /proc files that are opened once.
//!
//! The held files belong to one address space: after exec they read as empty, whatever program runs
//! under the pid then.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use nodeward_machine::{
    Error, Liveness, MovePagesCall, MovePagesOutcome, PagesByMapping, Process, Result,
};
use nodeward_model::{
    AffinityOutcome, Cpumask, Mapping, MappingKind, MemoryPolicies, NodeId, NumaActivity, Page,
    PageLocation, Pid, ProcessIdentity, ProcessTraits, Range,
};

use crate::confinement::{Confinement, PrivilegedAction};
use crate::frames::{FrameMap, LazyFrameMap};
use crate::mapping_pages;
use crate::nudge::journal::NudgeJournal;
use crate::nudge::{self, KernelAffinity};
use crate::pagemap::{self, NonPresent, PAGE_TABLE_PAGES, PagemapEntry, PagemapWindow};
use crate::pidfd::has_exited;
use crate::populated;
use crate::procfs::stat::TaskFlags;
use crate::procfs::{identity, maps, numa_maps, sched, smaps};
use crate::{memory_policies, move_pages, sys, traits};

/// Limit on the pages of one query; the kernel releases the target's lock after every 16.
const QUERY_PAGES_MAX: usize = 4096;
/// The shortest run of consecutive frames for which reading their flags pays off.
const FOLIO_PAGES_MIN: usize = 16;

/// A held process.
#[derive(Debug)]
pub struct LinuxProcess {
    pub(crate) pid: Pid,
    pub(crate) folder: PathBuf,
    pub(crate) pidfd: OwnedFd,
    pub(crate) maps: Mutex<File>,
    pub(crate) pagemap: File,
    pub(crate) frames: Arc<LazyFrameMap>,
    pub(crate) pagemap_scan: bool,
    pub(crate) nudge_journal: Arc<NudgeJournal>,
    pub(crate) has_swap: bool,
    pub(crate) page_bytes: u64,
}

impl Process for LinuxProcess {
    fn pid(&self) -> Pid {
        self.pid
    }

    fn identity(&self) -> Result<ProcessIdentity> {
        let identity = identity::read(Path::new("/"), self.pid)?;
        // If the held process is alive, files that were read by its path are its own.
        self.check_running().map(|()| identity)
    }

    fn liveness(&self) -> Liveness {
        if has_exited(&self.pidfd) {
            return Liveness::Exited;
        }
        match pagemap::entry(&self.pagemap, 0, self.page_bytes) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                self.liveness_without_memory()
            }
            Ok(_) | Err(_) => Liveness::Running,
        }
    }

    fn mappings(&self) -> Result<Vec<Mapping>> {
        let path = self.folder.join("maps");
        let text = self.read_maps().map_err(|source| self.failed(path.clone(), source))?;
        let mut mappings = maps::parse(&text, &path)?;
        self.mark_huge(&mut mappings);
        match mappings.is_empty() && self.liveness() != Liveness::Running {
            true => Err(Error::Gone(self.pid)),
            false => Ok(mappings),
        }
    }

    fn traits(&self) -> Result<ProcessTraits> {
        let traits = traits::read(&self.folder);
        self.check_running().map(|()| traits)
    }

    fn resident_bytes(&self) -> Result<u64> {
        let path = self.folder.join("statm");
        let text = std::fs::read_to_string(&path).map_err(|source| self.failed(path, source))?;
        let pages = text.split_ascii_whitespace().nth(1).and_then(|pages| pages.parse().ok());
        Ok(pages.unwrap_or(0_u64).saturating_mul(self.page_bytes))
    }

    fn populated(&self, range: Range) -> Result<Vec<Range>> {
        if !self.pagemap_scan {
            return Ok(vec![range]);
        }
        populated::populated(self.pagemap.as_fd(), range)
            .map_err(|source| self.failed(self.folder.join("pagemap"), source))
    }

    fn pages_by_mapping(&self) -> Result<Option<PagesByMapping>> {
        let mappings = self.mappings()?;
        if self.has_swap && mapping_pages::may_be_swapped(&self.folder, &mappings) {
            return Ok(None);
        }
        let pages = mapping_pages::read(&self.folder, mappings, self.page_bytes)
            .map_err(|source| self.failed(self.folder.join("numa_maps"), source))?;
        self.check_running().map(|()| pages)
    }

    fn pages(&self, mapping: &Mapping, range: Range, into: &mut Vec<Page>) -> Result<()> {
        let mut places = Vec::with_capacity(PAGE_TABLE_PAGES);
        self.for_each_window(range, |piece, window| {
            places.clear();
            self.window_locations(piece, window, &mut places)?;
            let first = into.len();
            into.extend(window.entries().zip(&places).map(|(entry, &place)| {
                let shared = entry.is_present() && !entry.is_exclusive();
                Page { location: place, shared, folio_pages: 1 }
            }));
            match mapping.huge_page_bytes {
                Some(bytes) => mark_hugetlb(&mut into[first..], piece, self.page_bytes, bytes),
                None => self.mark_folios(window, &mut into[first..]),
            }
            Ok(())
        })
    }

    fn locations(&self, range: Range, into: &mut Vec<PageLocation>) -> Result<()> {
        self.for_each_window(range, |piece, window| self.window_locations(piece, window, into))
    }

    fn frames(&self, range: Range, into: &mut Vec<Option<u64>>) -> Result<()> {
        if self.frames.get().is_none() {
            let situation = Confinement::detect(Path::new("/"));
            return Err(
                situation.denied("seeing page frame numbers", PrivilegedAction::FrameNumbers)
            );
        }
        self.for_each_window(range, |_, window| {
            into.extend(window.entries().map(PagemapEntry::frame));
            Ok(())
        })
    }

    fn locate(&self, addresses: &[u64]) -> Result<Vec<PageLocation>> {
        let mut places = Vec::with_capacity(addresses.len());
        for chunk in addresses.chunks(QUERY_PAGES_MAX) {
            let mut status = vec![0; chunk.len()];
            sys::query_pages(self.pid.number(), chunk, &mut status)
                .map_err(|source| move_pages::query_error(self.pid, source))?;
            places.extend(
                chunk.iter().zip(&status).map(|(&at, &code)| self.reported_location(at, code)),
            );
        }
        self.check_running().map(|()| places)
    }

    fn move_pages(&self, batch: &MovePagesCall) -> Result<MovePagesOutcome> {
        if self.liveness() != Liveness::Running {
            return Err(Error::Gone(self.pid));
        }
        let outcome = move_pages::move_pages(self.pid, batch)?;
        Ok(move_pages::gone_unless_running(outcome, self.liveness()))
    }

    /// Policies of threads other than the first are not seen; the only file that shows them costs
    /// another page table walk for each thread.
    fn memory_policies(&self) -> Result<MemoryPolicies> {
        let path = self.folder.join("numa_maps");
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            // A kernel without NUMA support has no policies (CONFIG_NUMA).
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(source) => return Err(self.failed(path, source)),
        };
        let path = self.folder.join("maps");
        let mapped = self.read_maps().map_err(|source| self.failed(path.clone(), source))?;
        let bound =
            memory_policies::infer(&numa_maps::policies(&text), &maps::parse(&mapped, &path)?);
        self.check_running().map(|()| bound)
    }

    fn nudge(&self, tid: u32, cpus: &Cpumask) -> Result<AffinityOutcome> {
        let thread = (self.pid, tid);
        self.change_affinity(tid, |kernel| nudge::nudge(kernel, &self.nudge_journal, thread, cpus))
    }

    fn pin(&self, tid: u32, cpus: &Cpumask) -> Result<AffinityOutcome> {
        self.change_affinity(tid, |kernel| nudge::pin(kernel, tid, cpus))
    }

    fn numa_activity(&self, tid: u32) -> Result<Option<NumaActivity>> {
        let thread = self.folder.join(format!("task/{tid}"));
        let text = std::fs::read(thread.join("sched")).unwrap_or_default();
        self.check_running()?;
        match sched::numa_activity(&text) {
            None if !thread.exists() => Err(Error::Gone(self.pid)),
            activity => Ok(activity),
        }
    }
}

impl LinuxProcess {
    /// The memory that was held is gone: by exec, or because the process is exiting, which takes
    /// long if there is much memory to free.
    fn liveness_without_memory(&self) -> Liveness {
        let stat = std::fs::read(self.folder.join("stat")).unwrap_or_default();
        match TaskFlags::parse(&stat) {
            Some(flags) if !flags.is_exiting() && !has_exited(&self.pidfd) => Liveness::Replaced,
            _ => Liveness::Exited,
        }
    }

    fn check_running(&self) -> Result<()> {
        match self.liveness() {
            Liveness::Running => Ok(()),
            Liveness::Exited | Liveness::Replaced => Err(Error::Gone(self.pid)),
        }
    }

    /// Places a thread if it is one of this process. The id of a thread that exits meanwhile is
    /// reused only after all ids have been used once.
    fn change_affinity(
        &self,
        tid: u32,
        act: impl FnOnce(&KernelAffinity<'_>) -> io::Result<AffinityOutcome>,
    ) -> Result<AffinityOutcome> {
        self.check_running()?;
        let is_ours = || self.folder.join(format!("task/{tid}")).exists();
        if !is_ours() {
            return self.check_running().map(|()| AffinityOutcome::Gone);
        }
        let placed = act(&KernelAffinity { root: Path::new("/"), folder: &self.folder });
        match placed {
            Ok(placed) => Ok(if is_ours() { placed } else { AffinityOutcome::Gone }),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let what = format!("placing threads of process {}", self.pid);
                Err(Confinement::detect(Path::new("/")).denied(what, PrivilegedAction::Threads))
            }
            Err(source) => Err(Error::Syscall { call: "sched_setaffinity", source }),
        }
    }

    fn read_maps(&self) -> io::Result<Vec<u8>> {
        let mut file = self.maps.lock().unwrap_or_else(PoisonError::into_inner);
        file.rewind()?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Marks the mappings of hugetlb pages, which maps does not tell from others.
    fn mark_huge(&self, mappings: &mut [Mapping]) {
        let read = |name| std::fs::read(self.folder.join(name)).unwrap_or_default();
        if !smaps::uses_hugetlb(&read("status")) {
            return;
        }
        let sizes = smaps::page_sizes(&read("smaps"));
        for mapping in mappings {
            let size = sizes.at(mapping.range.start).filter(|&size| size > self.page_bytes);
            if let Some(size) = size {
                mapping.kind = MappingKind::Huge;
                mapping.huge_page_bytes = Some(size);
            }
        }
    }

    /// Reads the entries of a range, one page table at a time.
    fn for_each_window(
        &self,
        range: Range,
        mut look: impl FnMut(Range, &PagemapWindow) -> Result<()>,
    ) -> Result<()> {
        let mut window = PagemapWindow::new();
        for piece in range.aligned_pieces(PAGE_TABLE_PAGES as u64 * self.page_bytes) {
            window
                .read(&self.pagemap, piece, self.page_bytes)
                .map_err(|source| self.failed(self.folder.join("pagemap"), source))?;
            look(piece, &window)?;
        }
        Ok(())
    }

    /// Appends the places of the pages of a window. Pages whose frame numbers do not give their
    /// node are queried.
    fn window_locations(
        &self,
        range: Range,
        window: &PagemapWindow,
        into: &mut Vec<PageLocation>,
    ) -> Result<()> {
        let frames = self.frames.get();
        let first = into.len();
        let mut unknown = Vec::new();
        for (index, entry) in window.entries().enumerate() {
            let place = self.location_of_entry(entry, frames);
            unknown.extend(place.is_none().then_some(index));
            into.push(place.unwrap_or(PageLocation::Absent));
        }
        if unknown.is_empty() {
            return Ok(());
        }
        let address = |&i: &usize| range.start + i as u64 * self.page_bytes;
        let addresses: Vec<u64> = unknown.iter().map(address).collect();
        for (&i, place) in unknown.iter().zip(self.locate(&addresses)?) {
            into[first + i] = place;
        }
        Ok(())
    }

    /// Returns the place of an entry's page; `None` if only a query can tell.
    fn location_of_entry(
        &self,
        entry: PagemapEntry,
        frames: Option<&FrameMap>,
    ) -> Option<PageLocation> {
        if !entry.is_present() {
            return Some(self.location_if_not_present(entry));
        }
        let frame = entry.frame()?;
        let frames = frames?;
        if frames.is_zero(frame)? {
            Some(PageLocation::Unmovable)
        } else {
            frames.node(frame).map(PageLocation::On)
        }
    }

    /// Returns the place of a page by the kernel's status code. If the code does not give a node,
    /// its entry is read.
    fn reported_location(&self, address: u64, code: i32) -> PageLocation {
        if let Ok(node) = u32::try_from(code) {
            return PageLocation::On(NodeId(node));
        }
        let start = address - address % self.page_bytes;
        match pagemap::entry(&self.pagemap, start, self.page_bytes) {
            Ok(entry) if entry.is_present() => self.location_of_unreported(start, entry),
            Ok(entry) => self.location_if_not_present(entry),
            Err(_) => PageLocation::Absent,
        }
    }

    /// Returns the place of a page that is present though the kernel's status had no node: it never
    /// moves, or it was mapped (for example by a new mapping at the same address) after the query.
    fn location_of_unreported(&self, address: u64, entry: PagemapEntry) -> PageLocation {
        self.location_of_entry(entry, self.frames.get()).unwrap_or_else(|| {
            let mut status = [-1];
            let asked = sys::query_pages(self.pid.number(), &[address], &mut status);
            let node = asked.ok().and_then(|()| u32::try_from(status[0]).ok());
            node.map_or(PageLocation::Unmovable, |node| PageLocation::On(NodeId(node)))
        })
    }

    /// Returns the place of a page that is not present.
    fn location_if_not_present(&self, entry: PagemapEntry) -> PageLocation {
        match entry.non_present() {
            None | Some(NonPresent::Marker) => PageLocation::Absent,
            Some(NonPresent::Migration) => PageLocation::InFlight,
            Some(NonPresent::Swap) if !self.has_swap => PageLocation::InFlight,
            Some(NonPresent::Swap) => PageLocation::Swapped,
        }
    }

    /// Marks folios: runs of consecutive frames whose flags show that they belong together. One
    /// frame of each window is checked first, because the kernel takes as long to show flags as to
    /// show entries. Folios that are missed that way are moved all the same, a little slower.
    fn mark_folios(&self, window: &PagemapWindow, pages: &mut [Page]) {
        let Some(frames) = self.frames.get() else { return };
        for (at, first, length) in runs_of_frames(window.entries(), FOLIO_PAGES_MIN) {
            let pages = &mut pages[at..at + length];
            if length == PAGE_TABLE_PAGES && frames.is_page_table_folio(first) {
                mark_one_folio(pages);
            } else if frames.is_in_folio(first + 1) {
                mark_folios_in_run(pages, &frames.flags(first, length));
            }
        }
    }

    fn failed(&self, path: PathBuf, source: io::Error) -> Error {
        file_error(self.pid, path, source)
    }
}

/// Returns the error of a read from an open file of a process's directory.
pub(crate) fn file_error(pid: Pid, path: PathBuf, source: io::Error) -> Error {
    match source.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::NotFound => Error::Gone(pid),
        _ if source.raw_os_error() == Some(libc::ESRCH) => Error::Gone(pid),
        _ => Error::Read { path, source },
    }
}

/// Opens a file of a process's directory. `attempt` explains a refusal.
pub(crate) fn open_file(
    pid: Pid,
    path: PathBuf,
    options: &OpenOptions,
    attempt: PrivilegedAction,
) -> Result<File> {
    options.open(&path).map_err(|source| match source.kind() {
        io::ErrorKind::PermissionDenied => Confinement::detect(Path::new("/"))
            .denied(format!("looking into process {pid}"), attempt),
        _ => file_error(pid, path, source),
    })
}

/// Returns the runs of at least `length_min` consecutive frames: the index of the first entry, its
/// frame, and the number of frames.
fn runs_of_frames(
    entries: impl Iterator<Item = PagemapEntry>,
    length_min: usize,
) -> Vec<(usize, u64, usize)> {
    let mut runs = Vec::new();
    let mut run = (0, 0, 0);
    for (index, frame) in entries.map(PagemapEntry::frame).chain([None]).enumerate() {
        let (_, first, length) = run;
        if frame == Some(first + length as u64) && length > 0 {
            run.2 += 1;
            continue;
        }
        runs.extend((length >= length_min).then_some(run));
        run = (index, frame.unwrap_or(0), usize::from(frame.is_some()));
    }
    runs
}

fn mark_folios_in_run(pages: &mut [Page], flags: &[crate::frames::FrameFlags]) {
    let mut head = 0;
    for (i, flag) in flags.iter().enumerate() {
        if flag.is_zero() {
            pages[i].location = PageLocation::Unmovable;
        }
        if i > 0 && flag.is_tail() {
            pages[i].folio_pages = 0;
            pages[head].folio_pages += 1;
        } else {
            head = i;
        }
    }
}

/// Marks all of these pages as one folio.
fn mark_one_folio(pages: &mut [Page]) {
    pages.iter_mut().for_each(|page| page.folio_pages = 0);
    pages[0].folio_pages = u32::try_from(pages.len()).unwrap_or(u32::MAX);
}

/// Marks every aligned `huge_bytes` of a hugetlb mapping as one folio.
fn mark_hugetlb(pages: &mut [Page], range: Range, page_bytes: u64, huge_bytes: u64) {
    let pages_per_folio = u32::try_from(huge_bytes / page_bytes).unwrap_or(u32::MAX);
    for (i, page) in pages.iter_mut().enumerate() {
        let address = range.start + i as u64 * page_bytes;
        page.folio_pages = if address.is_multiple_of(huge_bytes) { pages_per_folio } else { 0 };
    }
}

/// Checks that a process is no kernel thread. `folder` is its directory in /proc.
pub(crate) fn refuse_kernel_thread(pid: Pid, folder: &Path) -> Result<()> {
    let stat = std::fs::read(folder.join("stat")).map_err(|_| Error::Gone(pid))?;
    match TaskFlags::parse(&stat) {
        Some(flags) if flags.is_kernel_thread() => Err(Error::KernelThread(pid)),
        Some(_) => Ok(()),
        None => Err(Error::Parse {
            path: folder.join("stat"),
            line: 1,
            expected: "PID (NAME) STATE and numbers".to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_that_follow_each_other_are_one_run() {
        let present = |frame: u64| PagemapEntry::from_bytes((1 << 63 | frame).to_ne_bytes());
        let absent = PagemapEntry::from_bytes([0; 8]);
        let entries = [present(7), present(8), absent, present(9), present(10), present(3)];
        assert_eq!(runs_of_frames(entries.into_iter(), 1), [(0, 7, 2), (3, 9, 2), (5, 3, 1)]);
        assert_eq!(runs_of_frames(entries.into_iter(), 2), [(0, 7, 2), (3, 9, 2)]);
    }

    #[test]
    fn a_hugetlb_page_counts_once_at_its_head() {
        let mut pages = vec![Page::on(NodeId(0)); 1024];
        mark_hugetlb(&mut pages, Range::new(0x20_0000, 0x60_0000), 4096, 2 << 20);
        let heads: Vec<_> = (0..1024).filter(|&i| pages[i].folio_pages > 0).collect();
        assert_eq!(heads, [0, 512]);
        assert_eq!(pages.iter().map(|p| p.folio_pages).sum::<u32>(), 1024);
    }
}
