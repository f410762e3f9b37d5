//! What a program may do to parts of memory that somebody else manages: munmap(2), mmap(2),
//! mprotect(2), mlock(2), madvise(2).

use std::ffi::c_void;
use std::io;
use std::sync::atomic::AtomicU64;

use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags};

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meddling {
    /// The memory is unmapped.
    Unmap,
    /// Fresh memory is mapped in its place.
    Replace,
    /// A file (this program) is mapped in its place.
    MapFile,
    /// It may be read only.
    Protect,
    /// It may be neither read nor written.
    Forbid,
    /// It may be read and written again.
    Unprotect,
    /// It is locked in memory.
    Lock,
    /// It is no longer locked.
    Unlock,
    /// Its content is thrown away.
    Discard,
    /// It is to be made of base pages.
    BasePages,
    /// It may be made of huge pages.
    HugePages,
    /// Equal pages of it may be merged (KSM).
    Merge,
    /// It goes to swap, as far as there is some.
    PageOut,
}

/// Does it to whole pages.
///
/// The borrow says where. It is the caller's promise that nobody reaches unmapped words any more,
/// this borrow included: whoever does is ended by a signal, or finds what was mapped there later.
pub fn meddle(words: &[AtomicU64], how: Meddling) -> io::Result<()> {
    let (start, bytes) = (words.as_ptr().cast_mut().cast::<c_void>(), size_of_val(words));
    let both = MprotectFlags::READ | MprotectFlags::WRITE;
    match how {
        // SAFETY: the words are ours; that nobody uses them any more is the caller's promise.
        Meddling::Unmap => unsafe { rustix::mm::munmap(start, bytes) },
        Meddling::Replace => {
            let access = ProtFlags::READ | ProtFlags::WRITE;
            let flags = MapFlags::PRIVATE | MapFlags::FIXED;
            // SAFETY: what is replaced is ours, and reads as zero afterwards, which users of
            // atomics expect from any other thread.
            unsafe { rustix::mm::mmap_anonymous(start, bytes, access, flags) }.map(drop)
        }
        Meddling::MapFile => {
            let file = std::fs::File::open("/proc/self/exe")?;
            let flags = MapFlags::PRIVATE | MapFlags::FIXED;
            // SAFETY: what is replaced is ours, and nobody reaches it any more.
            unsafe { rustix::mm::mmap(start, bytes, ProtFlags::READ, flags, file, 0) }.map(drop)
        }
        // SAFETY: the words are ours; who writes meanwhile is ended by a signal.
        Meddling::Protect => unsafe { rustix::mm::mprotect(start, bytes, MprotectFlags::READ) },
        // SAFETY: the words are ours; whoever reaches for them meanwhile is ended by a signal.
        Meddling::Forbid => unsafe { rustix::mm::mprotect(start, bytes, MprotectFlags::empty()) },
        // SAFETY: the words are ours.
        Meddling::Unprotect => unsafe { rustix::mm::mprotect(start, bytes, both) },
        // SAFETY: content does not change.
        Meddling::Lock => unsafe { rustix::mm::mlock(start, bytes) },
        // SAFETY: content does not change.
        Meddling::Unlock => unsafe { rustix::mm::munlock(start, bytes) },
        // SAFETY: the words read as zero afterwards, as if another thread had written them.
        Meddling::Discard => unsafe { rustix::mm::madvise(start, bytes, Advice::LinuxDontNeed) },
        // SAFETY: content does not change.
        Meddling::BasePages => unsafe {
            rustix::mm::madvise(start, bytes, Advice::LinuxNoHugepage)
        },
        // SAFETY: content does not change.
        Meddling::HugePages => unsafe { rustix::mm::madvise(start, bytes, Advice::LinuxHugepage) },
        // SAFETY: content does not change.
        Meddling::Merge => unsafe { rustix::mm::madvise(start, bytes, Advice::LinuxMergeable) },
        // SAFETY: content does not change.
        Meddling::PageOut => unsafe { rustix::mm::madvise(start, bytes, Advice::LinuxPageOut) },
    }?;
    Ok(())
}
