//! A part of a file that is mapped to get at its cached pages, and never read: mmap(2), mincore(2),
//! mremap(2), madvise(2).

use std::ffi::c_void;
use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};

use nodeward_model::Range;
use rustix::mm::{Advice, MapFlags, MremapFlags, ProtFlags};

/// What one page table maps, in bytes. A folio that does not cross one is seen as what it is; not
/// every file system asks the kernel for addresses at which that is so.
const PAGE_TABLE: usize = 2 << 20;
const PAGE_TABLE_BYTES: u64 = PAGE_TABLE as u64;

/// A read-only, shared mapping of a part of a file; it ends with the value. Its content cannot be
/// reached through it, so the file may shrink meanwhile.
#[derive(Debug)]
pub struct FileView {
    start: NonNull<c_void>,
    bytes: usize,
}

impl FileView {
    /// Maps `bytes` (above zero) of a file from `offset` on. Both must be multiples of the size of
    /// its pages, `page_bytes`, but the end need not if they are base pages. Reads nothing and
    /// reserves nothing; later faults do not read ahead, and the kernel does not make huge pages of
    /// what is mapped.
    pub fn map(
        file: BorrowedFd<'_>,
        offset: u64,
        bytes: usize,
        page_bytes: usize,
    ) -> io::Result<Self> {
        let map_near = |address| Self::map_near(address, file, offset, bytes, page_bytes);
        let view = map_near(ptr::null_mut())?;
        if view.range().aligned_pieces(PAGE_TABLE_BYTES).count() <= bytes.div_ceil(PAGE_TABLE) {
            return Ok(view);
        }
        // It could lie in fewer page tables: at the beginning of one, just below.
        let excess = view.start.as_ptr().addr() % PAGE_TABLE;
        let below = view.start.as_ptr().wrapping_byte_sub(excess);
        drop(view);
        map_near(below)
    }

    /// Maps at an address if it is free, else elsewhere. Of base pages the first one, then all: if
    /// all were mapped before they are advised, khugepaged could come between the two, make a huge
    /// page of the first 512 and take their page table away. What grows keeps its advice.
    fn map_near(
        address: *mut c_void,
        file: BorrowedFd<'_>,
        offset: u64,
        bytes: usize,
        page_bytes: usize,
    ) -> io::Result<Self> {
        let is_base = page_bytes == rustix::param::page_size();
        let flags = MapFlags::SHARED | MapFlags::NORESERVE;
        let read = ProtFlags::READ;
        // The kernel lets no mapping of hugetlb pages grow.
        let first = if is_base { page_bytes } else { bytes };
        // SAFETY: without MAP_FIXED the kernel takes only addresses that nothing uses, whatever it
        // is told; the descriptor is borrowed for the call, and the mapping outlives it.
        let start = unsafe { rustix::mm::mmap(address, first, read, flags, file, offset) }?;
        let start = NonNull::new(start).ok_or(io::ErrorKind::OutOfMemory)?;
        let mut view = Self { start, bytes: first };
        view.advise(view.range(), Advice::Random)?;
        // Refused for hugetlb pages, and by kernels that make no huge pages.
        view.advise(view.range(), Advice::LinuxNoHugepage).ok();
        if is_base {
            view.grow(bytes)?;
        }
        Ok(view)
    }

    /// Maps more of the file, where it is or elsewhere.
    fn grow(&mut self, bytes: usize) -> io::Result<()> {
        let start = self.start.as_ptr();
        // SAFETY: the range is this mapping, into which nobody holds references or addresses; the
        // kernel moves it only to addresses that nothing uses.
        let start = unsafe { rustix::mm::mremap(start, self.bytes, bytes, MremapFlags::MAYMOVE) }?;
        self.start = NonNull::new(start).ok_or(io::ErrorKind::OutOfMemory)?;
        self.bytes = bytes;
        Ok(())
    }

    /// The addresses, up to the end of the last page.
    pub fn range(&self) -> Range {
        let start = self.start.as_ptr() as u64;
        let page_bytes = rustix::param::page_size();
        Range::new(start, start + self.bytes.next_multiple_of(page_bytes) as u64)
    }

    /// For each base page of a range of whole pages, whether it is in memory: bit 0 of its byte.
    pub fn residency(&self, range: Range) -> io::Result<Vec<u8>> {
        let (start, bytes) = self.part(range)?;
        let mut pages = vec![0_u8; bytes.div_ceil(rustix::param::page_size())];
        // SAFETY: the range is within this mapping, and the kernel writes one byte for each page.
        let result = unsafe { libc::mincore(start, bytes, pages.as_mut_ptr()) };
        if result == 0 { Ok(pages) } else { Err(io::Error::last_os_error()) }
    }

    /// Maps the pages of a range of whole pages as if each had been read (Linux 5.14).
    ///
    /// # Errors
    /// EFAULT where reading would have raised SIGBUS: behind the end of the file, above all. Pages
    /// before that are mapped then.
    pub fn populate(&self, range: Range) -> io::Result<()> {
        self.advise(range, Advice::LinuxPopulateRead)
    }

    /// Where the part of a range that is within this mapping begins, and its length in bytes.
    fn part(&self, range: Range) -> io::Result<(*mut c_void, usize)> {
        let all = self.range();
        let within = all.and(range).ok_or(io::ErrorKind::InvalidInput)?;
        let size = |bytes: u64| usize::try_from(bytes).map_err(io::Error::other);
        let start = self.start.as_ptr().wrapping_byte_add(size(within.start - all.start)?);
        Ok((start, size(within.bytes())?))
    }

    fn advise(&self, range: Range, advice: Advice) -> io::Result<()> {
        let (start, bytes) = self.part(range)?;
        // SAFETY: the range is within this mapping; no advice given here changes what is in memory,
        // and nobody holds references into it.
        Ok(unsafe { rustix::mm::madvise(start, bytes, advice) }?)
    }
}

impl Drop for FileView {
    fn drop(&mut self) {
        // SAFETY: `map` made this mapping, nobody else unmaps it, and it was never lent out. A
        // failure leaves it mapped until the process ends, which harms nobody.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr(), self.bytes) };
    }
}

/// Whether this kernel knows [`FileView::populate`]: it refuses advice that it does not know
/// before it sees that none of the memory is meant.
pub fn knows_populate() -> bool {
    // SAFETY: a range of no bytes concerns no memory.
    unsafe { rustix::mm::madvise(ptr::null_mut(), 0, Advice::LinuxPopulateRead) }.is_ok()
}
