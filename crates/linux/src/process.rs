//! A process of this kernel, held by a pidfd and by /proc files that are opened once.
//!
//! The held files belong to one address space: after exec they read as empty, whatever program runs
//! under the pid then.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use nodeward_machine::{
    CallEnd, CollapseOutcome, Error, Liveness, MovePagesCall, MovePagesOutcome, PagesByMapping,
    Process, Result,
};
use nodeward_model::{
    AffinityOutcome, Cpumask, Mapping, MappingKind, MemoryPolicies, NodeId, NumaActivity, Page,
    PageLocation, Pid, ProcessIdentity, ProcessTraits, Range,
};

use crate::confinement::{Confinement, PrivilegedAction};
use crate::file_error::file_error;
use crate::kernel_file;
use crate::mapping_pages;
use crate::nudge::journal::NudgeJournal;
use crate::nudge::{self, KernelAffinity};
use crate::page_tables::PageTables;
use crate::pidfd::has_exited;
use crate::procfs::stat::TaskFlags;
use crate::procfs::{identity, maps, numa_maps, sched, smaps, status};
use crate::{collapse, memory_policies, move_pages, split, traits};

/// A held process.
#[derive(Debug)]
pub struct LinuxProcess {
    pub(crate) pid: Pid,
    pub(crate) folder: PathBuf,
    pub(crate) pidfd: OwnedFd,
    pub(crate) maps: Mutex<File>,
    pub(crate) page_tables: PageTables,
    pub(crate) pagemap_scan: bool,
    pub(crate) nudge_journal: Arc<NudgeJournal>,
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
        match self.page_tables.entry(0) {
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
        let text =
            kernel_file::read_to_string(&path).map_err(|source| self.failed(path, source))?;
        let pages = text.split_ascii_whitespace().nth(1).and_then(|pages| pages.parse().ok());
        Ok(pages.unwrap_or(0_u64).saturating_mul(self.page_bytes))
    }

    fn pinned_bytes(&self) -> Result<u64> {
        let path = self.folder.join("status");
        let text = kernel_file::read(&path).map_err(|source| self.failed(path, source))?;
        Ok(status::parse(&text).pinned_bytes.unwrap_or(0))
    }

    fn populated(&self, range: Range) -> Result<Vec<Range>> {
        if !self.pagemap_scan {
            return Ok(vec![range]);
        }
        self.page_tables.populated(range)
    }

    fn pages_by_mapping(&self) -> Result<Option<PagesByMapping>> {
        let mappings = self.mappings()?;
        let mappings = match self.page_tables.has_swap() {
            true => mapping_pages::without_swapped(&self.folder, mappings),
            false => mappings,
        };
        let pages = mapping_pages::read(&self.folder, mappings, self.page_bytes)
            .map_err(|source| self.failed(self.folder.join("numa_maps"), source))?;
        self.check_running().map(|()| pages)
    }

    fn pages(&self, mapping: &Mapping, range: Range, into: &mut Vec<Page>) -> Result<()> {
        self.page_tables.states(&[(mapping, range)], into)
    }

    fn pages_of(&self, parts: &[(Arc<Mapping>, Range)], into: &mut Vec<Page>) -> Result<()> {
        let parts: Vec<_> = parts.iter().map(|(mapping, range)| (&**mapping, *range)).collect();
        self.page_tables.states(&parts, into)
    }

    fn locations(&self, range: Range, into: &mut Vec<PageLocation>) -> Result<()> {
        self.page_tables.locations(&[range], into)
    }

    fn locations_of(&self, ranges: &[Range], into: &mut Vec<PageLocation>) -> Result<()> {
        self.page_tables.locations(ranges, into)
    }

    fn frames(&self, range: Range, into: &mut Vec<Option<u64>>) -> Result<()> {
        if !self.page_tables.shows_frames() {
            let situation = Confinement::detect(Path::new("/"));
            return Err(
                situation.denied("seeing page frame numbers", PrivilegedAction::FrameNumbers)
            );
        }
        self.page_tables.frames(range, into)
    }

    fn locate(&self, addresses: &[u64]) -> Result<Vec<PageLocation>> {
        let places = self.page_tables.locate(addresses)?;
        self.check_running().map(|()| places)
    }

    fn move_pages(&self, batch: &MovePagesCall) -> Result<MovePagesOutcome> {
        if self.liveness() != Liveness::Running {
            return Err(Error::Gone(self.pid));
        }
        let outcome = move_pages::move_pages(self.pid, batch)?;
        Ok(move_pages::gone_unless_running(outcome, self.liveness()))
    }

    fn migrate_pages(&self, from: NodeId, to: NodeId) -> Result<CallEnd> {
        if self.liveness() != Liveness::Running {
            return Err(Error::Gone(self.pid));
        }
        let end = move_pages::migrate_pages(self.pid, from, to)?;
        Ok(if self.liveness() == Liveness::Running { end } else { CallEnd::Gone })
    }

    fn collapse(&self, part: Range) -> Result<CollapseOutcome> {
        if self.liveness() != Liveness::Running {
            return Err(Error::Gone(self.pid));
        }
        collapse::collapse(self.pid, self.pidfd.as_fd(), part)
    }

    fn split_folio(&self, folio: Range) -> Result<bool> {
        if self.liveness() != Liveness::Running {
            return Err(Error::Gone(self.pid));
        }
        split::request_split(self.pid, self.pidfd.as_fd(), folio, self.page_tables.page_bytes())?;
        Ok(!self.page_tables.has_folio(folio)?)
    }

    /// Policies of threads other than the first are not seen; the only file that shows them costs
    /// another page table walk for each thread.
    fn memory_policies(&self) -> Result<MemoryPolicies> {
        let path = self.folder.join("numa_maps");
        let text = match kernel_file::read(&path) {
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
        let text = kernel_file::read(thread.join("sched")).unwrap_or_default();
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
        let stat = kernel_file::read(self.folder.join("stat")).unwrap_or_default();
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
        kernel_file::read_rest(&file)
    }

    /// Marks the mappings of hugetlb pages, which maps does not tell from others.
    fn mark_huge(&self, mappings: &mut [Mapping]) {
        let read = |name| kernel_file::read(self.folder.join(name)).unwrap_or_default();
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

    fn failed(&self, path: PathBuf, source: io::Error) -> Error {
        file_error(self.pid, path, source)
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

/// Checks that a process is no kernel thread. `folder` is its directory in /proc.
pub(crate) fn refuse_kernel_thread(pid: Pid, folder: &Path) -> Result<()> {
    let path = folder.join("stat");
    let stat = kernel_file::read(&path).map_err(|source| file_error(pid, path, source))?;
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
