//! Changes of memory that another part of the program manages: munmap(2), mmap(2), mprotect(2),
//! mlock(2), madvise(2). Tests use them as a program would.

use std::ffi::c_void;
use std::io;
use std::sync::atomic::AtomicU64;

use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags};

/// The change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryChange {
    /// Unmap the memory.
    Unmap,
    /// Map fresh memory in its place.
    MapAnonymous,
    /// Map a file (this program) in its place.
    MapFile,
    /// Make it read-only.
    ProtectReadOnly,
    /// Forbid reads and writes.
    ProtectNone,
    /// Permit reads and writes again.
    Unprotect,
    /// Lock it in memory.
    Lock,
    /// Unlock it.
    Unlock,
    /// Discard its content.
    Discard,
    /// Use base pages only.
    BasePages,
    /// Use huge pages where possible.
    HugePages,
    /// Merge equal pages of it (KSM).
    Merge,
    /// Move it to swap, as far as there is some.
    PageOut,
}

/// Applies the change to the whole pages of `words`.
///
/// The borrow only gives the addresses. The caller promises that no code accesses unmapped words
/// any more, not even through this borrow: an access is ended by a signal, or reaches a later
/// mapping at that address.
pub fn change_memory(words: &[AtomicU64], how: MemoryChange) -> io::Result<()> {
    let (start, bytes) = (words.as_ptr().cast_mut().cast::<c_void>(), size_of_val(words));
    let both = MprotectFlags::READ | MprotectFlags::WRITE;
    match how {
        // SAFETY: the words belong to the caller, who promises that no code uses them any more.
        MemoryChange::Unmap => unsafe { rustix::mm::munmap(start, bytes) },
        MemoryChange::MapAnonymous => {
            let access = ProtFlags::READ | ProtFlags::WRITE;
            let flags = MapFlags::PRIVATE | MapFlags::FIXED;
            // SAFETY: the replaced memory belongs to the caller and reads as zero afterwards, which
            // users of atomics expect from any other thread.
            unsafe { rustix::mm::mmap_anonymous(start, bytes, access, flags) }.map(drop)
        }
        MemoryChange::MapFile => {
            let file = std::fs::File::open("/proc/self/exe")?;
            let flags = MapFlags::PRIVATE | MapFlags::FIXED;
            // SAFETY: the replaced memory belongs to the caller, and no code accesses it any more.
            unsafe { rustix::mm::mmap(start, bytes, ProtFlags::READ, flags, file, 0) }.map(drop)
        }
        // SAFETY: the words belong to the caller; a write meanwhile is ended by a signal.
        MemoryChange::ProtectReadOnly => unsafe {
            rustix::mm::mprotect(start, bytes, MprotectFlags::READ)
        },
        // SAFETY: the words belong to the caller; an access meanwhile is ended by a signal.
        MemoryChange::ProtectNone => unsafe {
            rustix::mm::mprotect(start, bytes, MprotectFlags::empty())
        },
        // SAFETY: the words belong to the caller.
        MemoryChange::Unprotect => unsafe { rustix::mm::mprotect(start, bytes, both) },
        // SAFETY: content does not change.
        MemoryChange::Lock => unsafe { rustix::mm::mlock(start, bytes) },
        // SAFETY: content does not change.
        MemoryChange::Unlock => unsafe { rustix::mm::munlock(start, bytes) },
        // SAFETY: the words read as zero afterwards, as if another thread had written them.
        MemoryChange::Discard => unsafe {
            rustix::mm::madvise(start, bytes, Advice::LinuxDontNeed)
        },
        // SAFETY: content does not change.
        MemoryChange::BasePages => unsafe {
            rustix::mm::madvise(start, bytes, Advice::LinuxNoHugepage)
        },
        // SAFETY: content does not change.
        MemoryChange::HugePages => unsafe {
            rustix::mm::madvise(start, bytes, Advice::LinuxHugepage)
        },
        // SAFETY: content does not change.
        MemoryChange::Merge => unsafe { rustix::mm::madvise(start, bytes, Advice::LinuxMergeable) },
        // SAFETY: content does not change.
        MemoryChange::PageOut => unsafe { rustix::mm::madvise(start, bytes, Advice::LinuxPageOut) },
    }?;
    Ok(())
}
