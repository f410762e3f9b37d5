//! Our own process as a target: memory of every kind, children that share it, pages that are held,
//! and what a thread has waited for. Load programs, probes and tests are made of this.

use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Write as _};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::sync::atomic::AtomicU64;

use nodeward_model::{CpuId, Pid};
use rustix::fs::{Mode, OFlags};

use crate::pagemap::{self, Entry, Window};
use crate::procfs::{lines, stat};
use crate::sys::{self, PageRegion, Wanted};
pub use crate::sys::{Area, Backing, Usage};

/// What a thread has been through since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interruptions {
    /// How often it gave up its CPU to wait, for a page in flight among other things.
    pub waits: u64,
    /// How often its CPU was given to another thread.
    pub preemptions: u64,
    /// Page faults that needed no reading from a disk.
    pub minor_faults: u64,
}

impl Interruptions {
    /// Of the calling thread, until now. Cost: one system call.
    pub fn of_this_thread() -> io::Result<Self> {
        let usage = sys::thread_usage()?;
        Ok(Self {
            waits: usage.ru_nvcsw.cast_unsigned(),
            preemptions: usage.ru_nivcsw.cast_unsigned(),
            minor_faults: usage.ru_minflt.cast_unsigned(),
        })
    }
}

/// The time that one thread stood in line for a CPU, as the scheduler counts it.
#[derive(Debug)]
pub struct QueueTime(File);

impl QueueTime {
    /// Of the calling thread, whichever thread asks later.
    ///
    /// # Errors
    /// `NotFound` where the kernel does not count it (`CONFIG_SCHED_INFO`).
    pub fn of_this_thread() -> io::Result<Self> {
        File::open("/proc/thread-self/schedstat").map(Self)
    }

    /// Nanoseconds until now. Cost: one system call.
    pub fn total_ns(&self) -> io::Result<u64> {
        let mut text = [0; 64];
        let length = self.0.read_at(&mut text, 0)?;
        let words = std::str::from_utf8(&text[..length]).unwrap_or_default();
        // Nanoseconds on a CPU, in line for one, and turns.
        let queued = words.split_ascii_whitespace().nth(1).and_then(|word| word.parse().ok());
        queued.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "schedstat is odd"))
    }
}

/// Our own page tables, as /proc/self/pagemap shows them; those of the process that opened it, also
/// in its children.
#[derive(Debug)]
pub struct PageMap {
    file: File,
    page_bytes: u64,
}

impl PageMap {
    /// Opens it.
    pub fn open() -> io::Result<Self> {
        let page_bytes = rustix::param::page_size() as u64;
        Ok(Self { file: File::open("/proc/self/pagemap")?, page_bytes })
    }

    /// Whether one page table entry maps all of a range. Cost: one system call.
    ///
    /// # Errors
    /// `Unsupported` (ENOTTY) before Linux 6.7.
    pub fn is_huge_page(&self, range: Range<u64>) -> io::Result<bool> {
        let mut found = [PageRegion::default()];
        let ends = (range.start, range.end);
        let (count, _) =
            sys::scan_pages(self.file.as_fd(), Wanted::Huge, ends, u64::MAX, &mut found)?;
        Ok(count == 1 && (found[0].start, found[0].end) == ends)
    }

    /// Calls `found` with the index of each page of a range that is in memory and that no other
    /// process maps. The range has 512 pages at most. Cost: one system call. Allocates nothing.
    pub fn each_of_ours_alone(
        &self,
        range: nodeward_model::Range,
        found: impl FnMut(usize),
    ) -> io::Result<()> {
        let mut window = Window::new();
        window.read(&self.file, range, self.page_bytes)?;
        let is_ours_alone = |entry: &Entry| entry.is_present() && entry.is_exclusive();
        let ours = window.entries().enumerate().filter(|(_, entry)| is_ours_alone(entry));
        ours.map(|(page, _)| page).for_each(found);
        Ok(())
    }

    /// Whether there is a page at an address, in memory, on its way to another frame or in swap.
    /// Cost: one system call. Allocates nothing.
    pub fn is_occupied(&self, address: u64) -> io::Result<bool> {
        let entry = pagemap::entry(&self.file, address, self.page_bytes)?;
        Ok(entry.is_present() || entry.stand_in().is_some())
    }
}

/// The CPU that a thread of ours last ran on; `None` if it has ended. Cost: about 10 us. Allocates
/// nothing.
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

/// The CPU that the calling thread runs on now.
pub fn current_cpu() -> CpuId {
    CpuId(rustix::thread::sched_getcpu() as u32)
}

/// Why this process gets no transparent huge pages where it asks for them; `None` if it does.
pub fn why_no_huge_pages() -> Option<String> {
    let modes = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
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

/// Starts a child that shares our memory copy-on-write and only sleeps, for so many seconds at
/// most; it ends when the calling thread ends.
pub fn fork_idle(seconds: u32) -> io::Result<Pid> {
    Pid::new(sys::fork_idle(seconds)?).map_err(io::Error::other)
}

/// A mapping of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnMapping {
    /// Where it is.
    pub range: Range<u64>,
    /// Whether it may be read and written.
    pub is_writable: bool,
}

/// Our mappings that lie in a range, or the parts of them that do, in ascending order.
///
/// # Errors
/// If /proc/self/maps cannot be read.
pub fn mappings_within(range: Range<u64>) -> io::Result<Vec<OwnMapping>> {
    // The names of files in there may be anything.
    let text = std::fs::read("/proc/self/maps")?;
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

/// How many mappings this process has.
pub fn mappings() -> io::Result<usize> {
    Ok(lines(&std::fs::read("/proc/self/maps")?).count())
}

/// Switches transparent huge pages off for this process, and for programs that it starts.
pub fn disable_huge_pages() -> io::Result<()> {
    sys::disable_huge_pages()
}

/// Makes a pipe refer to the pages behind `words` until it is closed, so that the kernel cannot
/// move them. Returns how many bytes the pipe took; it does not wait for room.
pub fn hold_in_pipe(pipe: BorrowedFd<'_>, words: &[AtomicU64]) -> io::Result<usize> {
    sys::vmsplice(pipe, words)
}
