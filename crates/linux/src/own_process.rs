//! The own process as a target: memory of every kind, children that share it, pinned pages, and
//! counts of a thread's waits. Load programs, probes and tests are built on this.

use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Write as _};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::sync::atomic::AtomicU64;

use nodeward_model::{CpuId, Pid};
use rustix::fs::{Mode, OFlags};

use crate::kernel_file;
use crate::pagemap::{self, PagemapEntry, PagemapWindow};
use crate::procfs::{lines, stat};
use crate::sys::{self, PageCategory, PageRegion};
pub use crate::sys::{AreaAdvice, AreaBacking, MappedArea, knows_populate};

/// Counts of a thread since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interruptions {
    /// The times that it gave up its CPU to wait, for example for a page in flight.
    pub waits: u64,
    /// The times that its CPU was given to another thread.
    pub preemptions: u64,
    /// Page faults without a read from a disk.
    pub minor_faults: u64,
}

impl Interruptions {
    /// Reads the counts of the calling thread. Cost: one system call.
    pub fn of_this_thread() -> io::Result<Self> {
        let usage = sys::thread_usage()?;
        Ok(Self {
            waits: usage.ru_nvcsw.cast_unsigned(),
            preemptions: usage.ru_nivcsw.cast_unsigned(),
            minor_faults: usage.ru_minflt.cast_unsigned(),
        })
    }
}

/// The time that one thread has waited on a run queue, as the scheduler counts it.
#[derive(Debug)]
pub struct RunDelay(File);

impl RunDelay {
    /// Opens the count of the calling thread. Any thread may read it later.
    ///
    /// # Errors
    /// `NotFound` where the kernel does not count it (`CONFIG_SCHED_INFO`).
    pub fn of_this_thread() -> io::Result<Self> {
        File::open("/proc/thread-self/schedstat").map(Self)
    }

    /// Returns the nanoseconds so far. Cost: one system call.
    pub fn total_ns(&self) -> io::Result<u64> {
        let mut text = [0; 64];
        let length = self.0.read_at(&mut text, 0)?;
        let words = std::str::from_utf8(&text[..length]).unwrap_or_default();
        // Nanoseconds on a CPU, nanoseconds on a run queue, and time slices.
        let queued = words.split_ascii_whitespace().nth(1).and_then(|word| word.parse().ok());
        queued.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "schedstat is odd"))
    }
}

/// The page tables of this process, as /proc/self/pagemap shows them. A child still reads those of
/// the process that opened it.
#[derive(Debug)]
pub struct OwnPagemap {
    file: File,
    page_bytes: u64,
}

impl OwnPagemap {
    /// Opens the file.
    pub fn open() -> io::Result<Self> {
        let page_bytes = rustix::param::page_size() as u64;
        Ok(Self { file: File::open("/proc/self/pagemap")?, page_bytes })
    }

    /// Returns true if one page table entry maps all of a range. Cost: one system call.
    ///
    /// # Errors
    /// `Unsupported` (ENOTTY) before Linux 6.7.
    pub fn is_huge_page(&self, range: Range<u64>) -> io::Result<bool> {
        let mut found = [PageRegion::default()];
        let ends = (range.start, range.end);
        let (count, _) =
            sys::scan_pages(self.file.as_fd(), PageCategory::Huge, ends, u64::MAX, &mut found)?;
        Ok(count == 1 && (found[0].start, found[0].end) == ends)
    }

    /// Calls `found` with the index of each page of a range that is in memory and mapped by no
    /// other process. The range has at most 512 pages. Cost: one system call. Allocates nothing.
    pub fn for_each_exclusive(
        &self,
        range: nodeward_model::Range,
        found: impl FnMut(usize),
    ) -> io::Result<()> {
        let mut window = PagemapWindow::new();
        window.read(&self.file, range, self.page_bytes)?;
        let is_ours_alone = |entry: &PagemapEntry| entry.is_present() && entry.is_exclusive();
        let ours = window.entries().enumerate().filter(|(_, entry)| is_ours_alone(entry));
        ours.map(|(page, _)| page).for_each(found);
        Ok(())
    }

    /// Returns true if there is a page at an address: in memory, in flight or in swap. Cost: one
    /// system call. Allocates nothing.
    pub fn is_occupied(&self, address: u64) -> io::Result<bool> {
        let entry = pagemap::entry(&self.file, address, self.page_bytes)?;
        Ok(entry.is_present() || entry.non_present().is_some())
    }
}

/// Returns the CPU that a thread of this process last ran on; `None` if the thread has exited.
/// Cost: about 10 us. Allocates nothing.
pub fn cpu_of_thread(tid: u32) -> Option<CpuId> {
    // Room for 10 digits, and for 64 characters of a name and 51 numbers.
    let (mut path, mut text) = ([0; 40], [0; 2048]);
    write!(&mut path[..39], "/proc/self/task/{tid}/stat").ok()?;
    let path = CStr::from_bytes_until_nul(&path).ok()?;
    let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    // The kernel writes it in one piece.
    let bytes = rustix::io::read(&file, &mut text).ok()?;
    Some(stat::parse(&text[..bytes])?.cpu)
}

/// Returns the CPU that the calling thread runs on.
pub fn current_cpu() -> CpuId {
    CpuId(rustix::thread::sched_getcpu() as u32)
}

/// Returns the reason why this process gets no transparent huge pages where it asks for them;
/// `None` if it does.
pub fn huge_pages_unavailable() -> Option<String> {
    let modes = kernel_file::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    match modes {
        Err(_) => Some("this kernel has none (CONFIG_TRANSPARENT_HUGEPAGE)".to_owned()),
        Ok(modes) if modes.contains("[never]") => Some(
            "they are off; write `madvise` to /sys/kernel/mm/transparent_hugepage/enabled"
                .to_owned(),
        ),
        Ok(_) if sys::huge_pages_are_disabled() => Some(
            "they are off for this process (prctl PR_SET_THP_DISABLE), maybe by who started it"
                .to_owned(),
        ),
        Ok(_) => None,
    }
}

/// Forks a child that shares this process's memory copy-on-write and only sleeps, for at most
/// `seconds`; it exits when the calling thread exits.
pub fn fork_idle(seconds: u32) -> io::Result<Pid> {
    Pid::new(sys::fork_idle(seconds)?).map_err(io::Error::other)
}

/// A mapping of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnMapping {
    /// Its addresses.
    pub range: Range<u64>,
    /// True if it may be read and written.
    pub is_writable: bool,
}

/// Returns this process's mappings clipped to a range, in ascending order.
///
/// # Errors
/// If /proc/self/maps cannot be read.
pub fn mappings_within(range: Range<u64>) -> io::Result<Vec<OwnMapping>> {
    // The names of files in it need not be UTF-8.
    let text = kernel_file::read("/proc/self/maps")?;
    let lines = text.split(|byte| *byte == b'\n');
    let all = lines.filter_map(|line| own_mapping(&String::from_utf8_lossy(line)));
    let clip = |mapping: OwnMapping| {
        let (start, end) = (mapping.range.start.max(range.start), mapping.range.end.min(range.end));
        (start < end).then_some(OwnMapping { range: start..end, ..mapping })
    };
    Ok(all.filter_map(clip).collect())
}

fn own_mapping(line: &str) -> Option<OwnMapping> {
    let (addresses, rest) = line.split_once(' ')?;
    let (start, end) = addresses.split_once('-')?;
    let address = |text| u64::from_str_radix(text, 16).ok();
    Some(OwnMapping { range: address(start)?..address(end)?, is_writable: rest.starts_with("rw") })
}

/// Returns the number of mappings of this process.
pub fn mappings() -> io::Result<usize> {
    Ok(lines(&kernel_file::read("/proc/self/maps")?).count())
}

/// Disables transparent huge pages for this process and for programs that it starts.
pub fn disable_huge_pages() -> io::Result<()> {
    sys::disable_huge_pages()
}

/// Takes back [`disable_huge_pages`], also if a parent called it.
pub fn allow_huge_pages() -> io::Result<()> {
    sys::allow_huge_pages()
}

/// Makes a pipe refer to the pages of `words` until it is closed, so that the kernel cannot move
/// them. Returns the bytes that the pipe took; it does not wait for room.
pub fn hold_in_pipe(pipe: BorrowedFd<'_>, words: &[AtomicU64]) -> io::Result<usize> {
    sys::vmsplice(pipe, words)
}
