//! A mapped part of a file, used to reach its cached pages and never read: mmap(2), mincore(2),
//! mremap(2), madvise(2).

use std::ffi::c_void;
use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};

use nodeward_model::Range;
use rustix::mm::{Advice, MapFlags, MremapFlags, ProtFlags};

/// Bytes that one page table maps. A folio that does not cross such a boundary is recognized as a
/// folio; not every file system asks the kernel for addresses at which folios do not cross one.
const PAGE_TABLE: usize = 2 << 20;
const PAGE_TABLE_BYTES: u64 = PAGE_TABLE as u64;

/// A read-only, shared mapping of a part of a file, unmapped when the value is dropped. It gives no
/// access to the content, so the file may shrink meanwhile.
#[derive(Debug)]
pub struct FileView {
    start: NonNull<c_void>,
    bytes: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread, and its content is never reached.
unsafe impl Send for FileView {}
// SAFETY: as above; no method that takes a shared reference changes the two fields.
unsafe impl Sync for FileView {}

impl FileView {
    /// Maps `bytes` (above zero) of a file from `offset` on. Both must be multiples of the size of
    /// its pages, `page_bytes`, but the end need not if they are base pages. Reads nothing and
    /// reserves nothing; later faults do not read ahead, and the kernel does not collapse the
    /// mapped pages to huge pages.
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
        // The part could be in fewer page tables: from the start of one, just below.
        let excess = view.start.as_ptr().addr() % PAGE_TABLE;
        let below = view.start.as_ptr().wrapping_byte_sub(excess);
        drop(view);
        map_near(below)
    }

    /// Maps at an address if it is free, else elsewhere. Base pages are mapped in two steps: the
    /// first page, then all. If all were mapped before the advice, khugepaged could collapse the
    /// first 512 to a huge page in between and free their page table. A mapping that grows keeps
    /// its advice.
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
        // The kernel lets no hugetlb mapping grow.
        let first = if is_base { page_bytes } else { bytes };
        // SAFETY: without MAP_FIXED the kernel takes only unused addresses, whatever the hint; the
        // descriptor is borrowed for the call, and the mapping outlives it.
        let start = unsafe { rustix::mm::mmap(address, first, read, flags, file, offset) }?;
        let start = NonNull::new(start).ok_or(io::ErrorKind::OutOfMemory)?;
        let mut view = Self { start, bytes: first };
        view.advise(view.range(), Advice::Random)?;
        // Refused for hugetlb pages, and by kernels without huge pages.
        view.advise(view.range(), Advice::LinuxNoHugepage).ok();
        if is_base {
            view.grow(bytes)?;
        }
        Ok(view)
    }

    /// Maps more of the file, at the same address or elsewhere.
    fn grow(&mut self, bytes: usize) -> io::Result<()> {
        let start = self.start.as_ptr();
        // SAFETY: the range is this mapping, and no other code holds references or addresses into
        // it; the kernel moves it only to unused addresses.
        let start = unsafe { rustix::mm::mremap(start, self.bytes, bytes, MremapFlags::MAYMOVE) }?;
        self.start = NonNull::new(start).ok_or(io::ErrorKind::OutOfMemory)?;
        self.bytes = bytes;
        Ok(())
    }

    /// Returns the addresses, up to the end of the last page.
    pub fn range(&self) -> Range {
        let start = self.start.as_ptr() as u64;
        let page_bytes = rustix::param::page_size();
        Range::new(start, start + self.bytes.next_multiple_of(page_bytes) as u64)
    }

    /// Returns one byte for each base page of a range of whole pages: bit 0 is set if the page is
    /// cached.
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
    /// EFAULT where a read would have raised SIGBUS, above all after the end of the file. The pages
    /// before are mapped then.
    pub fn populate(&self, range: Range) -> io::Result<()> {
        self.advise(range, Advice::LinuxPopulateRead)
    }

    /// Returns the start and the length in bytes of the part of a range that is within this
    /// mapping.
    fn part(&self, range: Range) -> io::Result<(*mut c_void, usize)> {
        let all = self.range();
        let within = all.intersection(range).ok_or(io::ErrorKind::InvalidInput)?;
        let size = |bytes: u64| usize::try_from(bytes).map_err(io::Error::other);
        let start = self.start.as_ptr().wrapping_byte_add(size(within.start - all.start)?);
        Ok((start, size(within.bytes())?))
    }

    fn advise(&self, range: Range, advice: Advice) -> io::Result<()> {
        let (start, bytes) = self.part(range)?;
        // SAFETY: the range is within this mapping; none of the advice used here changes the
        // content, and no code holds references into it.
        Ok(unsafe { rustix::mm::madvise(start, bytes, advice) }?)
    }
}

impl Drop for FileView {
    fn drop(&mut self) {
        // SAFETY: `map` made this mapping, no other code unmaps it, and it was never lent out. A
        // failure leaves it mapped until the process ends, which is harmless.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr(), self.bytes) };
    }
}

/// Returns true if this kernel knows the advice to populate memory, for reading and for writing
/// (Linux 5.14): it refuses unknown advice before it sees that the range is empty.
pub fn knows_populate() -> bool {
    // SAFETY: a range of no bytes affects no memory.
    unsafe { rustix::mm::madvise(ptr::null_mut(), 0, Advice::LinuxPopulateRead) }.is_ok()
}
