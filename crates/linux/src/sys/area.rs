//! Mappings of this process: mmap(2), munmap(2), madvise(2), mlock(2).

use std::ffi::c_void;
use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicU64;

use rustix::mm::{Advice, MapFlags, ProtFlags};

/// The memory of an [`MappedArea`].
#[derive(Clone, Copy, Debug)]
pub enum AreaBacking<'fd> {
    /// Private anonymous memory.
    Anonymous,
    /// The same, of any length: no memory is set aside for it (MAP_NORESERVE).
    Unreserved,
    /// Anonymous memory that children of fork(2) share.
    SharedAnonymous,
    /// Huge pages of the default size from the hugetlb pool.
    Huge,
    /// The same, shared with children of fork(2).
    SharedHuge,
    /// A file, copied on write. It must not shrink while the area lives, or access to the area
    /// raises SIGBUS.
    PrivateFile(BorrowedFd<'fd>),
    /// A file, written through. It must not shrink while the area lives, or access to the area
    /// raises SIGBUS.
    SharedFile(BorrowedFd<'fd>),
}

/// The advice to the kernel about an [`MappedArea`].
#[derive(Clone, Copy, Debug)]
pub enum AreaAdvice {
    /// Transparent huge pages are wanted.
    HugePages,
    /// Transparent huge pages are not wanted.
    BasePages,
    /// Equal pages may be merged (KSM).
    Mergeable,
    /// The content is no longer needed: the pages are freed and read as zero (or as the file)
    /// afterwards.
    Discard,
}

/// A readable and writable mapping of this process, unmapped when the value is dropped.
#[derive(Debug)]
pub struct MappedArea {
    start: NonNull<c_void>,
    bytes: usize,
    is_private_anonymous: bool,
}

// SAFETY: the mapping belongs to the process, not to a thread, and its content is reached only
// through atomics.
unsafe impl Send for MappedArea {}
// SAFETY: as above; no method changes the two fields.
unsafe impl Sync for MappedArea {}

impl MappedArea {
    /// Maps memory. `bytes` must be a multiple of the page size of the backing, and above zero.
    pub fn map(bytes: usize, backing: AreaBacking<'_>) -> io::Result<Self> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let (flags, file) = match backing {
            AreaBacking::Anonymous => (MapFlags::PRIVATE, None),
            AreaBacking::Unreserved => (MapFlags::PRIVATE | MapFlags::NORESERVE, None),
            AreaBacking::SharedAnonymous => (MapFlags::SHARED, None),
            AreaBacking::Huge => (MapFlags::PRIVATE | MapFlags::HUGETLB, None),
            AreaBacking::SharedHuge => (MapFlags::SHARED | MapFlags::HUGETLB, None),
            AreaBacking::PrivateFile(file) => (MapFlags::PRIVATE, Some(file)),
            AreaBacking::SharedFile(file) => (MapFlags::SHARED, Some(file)),
        };
        let start = match file {
            // SAFETY: without MAP_FIXED the kernel chooses unused addresses.
            None => unsafe { rustix::mm::mmap_anonymous(ptr::null_mut(), bytes, access, flags) },
            // SAFETY: as above; the descriptor is borrowed for the call, and the mapping outlives
            // it.
            Some(fd) => unsafe { rustix::mm::mmap(ptr::null_mut(), bytes, access, flags, fd, 0) },
        }?;
        let start = NonNull::new(start).ok_or(io::ErrorKind::OutOfMemory)?;
        let ours_alone =
            matches!(backing, AreaBacking::Anonymous | AreaBacking::Unreserved | AreaBacking::Huge);
        Ok(Self { start, bytes, is_private_anonymous: ours_alone })
    }

    /// Returns the first address.
    pub fn address(&self) -> u64 {
        self.start.as_ptr() as u64
    }

    /// Returns the length in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the content. Pages that were never written read as zero, or as the file.
    pub fn words(&self) -> &[AtomicU64] {
        let words = self.bytes / size_of::<AtomicU64>();
        // SAFETY: the mapping is page-aligned, readable, writable and `bytes` long until `self` is
        // dropped, which the borrow forbids; every bit pattern is a u64; the kernel and other
        // processes change it only as another thread might change an atomic.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().cast::<AtomicU64>(), words) }
    }

    /// Returns the content for exclusive access; `None` for memory that files or other processes
    /// can change.
    pub fn content_mut(&mut self) -> Option<&mut [u8]> {
        if !self.is_private_anonymous {
            return None;
        }
        // SAFETY: the mapping is readable, writable and `bytes` long until `self` is dropped; it is
        // private and anonymous, so that the borrow leaves no other way to change it; every bit
        // pattern is a u8.
        Some(unsafe {
            std::slice::from_raw_parts_mut(self.start.as_ptr().cast::<u8>(), self.bytes)
        })
    }

    /// Advises the kernel about the use of the area.
    pub fn advise(&self, usage: AreaAdvice) -> io::Result<()> {
        self.advise_part(0..self.bytes, usage)
    }

    /// Advises the kernel about the use of a part of the area, in bytes from its start.
    ///
    /// # Errors
    /// `InvalidInput` if the part is not inside; EINVAL if it does not begin at a page.
    pub fn advise_part(&self, part: Range<usize>, usage: AreaAdvice) -> io::Result<()> {
        if part.start > part.end || part.end > self.bytes {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let advice = match usage {
            AreaAdvice::HugePages => Advice::LinuxHugepage,
            AreaAdvice::BasePages => Advice::LinuxNoHugepage,
            AreaAdvice::Mergeable => Advice::LinuxMergeable,
            AreaAdvice::Discard => Advice::LinuxDontNeed,
        };
        let start = self.start.as_ptr().wrapping_byte_add(part.start);
        // SAFETY: the range is inside this mapping; at worst its pages read as zero afterwards,
        // which users of atomics must expect from any other thread as well.
        Ok(unsafe { rustix::mm::madvise(start, part.len(), advice) }?)
    }

    /// Brings every page into memory and locks it there (RLIMIT_MEMLOCK limits the amount).
    pub fn lock(&self) -> io::Result<()> {
        // SAFETY: the range is this mapping; the content does not change.
        Ok(unsafe { rustix::mm::mlock(self.start.as_ptr(), self.bytes) }?)
    }
}

impl Drop for MappedArea {
    fn drop(&mut self) {
        // SAFETY: `map` made this mapping, no other code unmaps it, and no borrow of it is left. A
        // failure (too many mappings while splitting one) leaves it mapped, which is harmless.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr(), self.bytes) };
    }
}
