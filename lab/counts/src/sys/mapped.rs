//! Counts in memory shared with other users of the file, or with the emulator.

use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::ops::Range;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::layout::WORD_BYTES;
use crate::reader::WordSource;

/// A file mapped as words and shared with its writers. The mapping ends with the value.
#[derive(Debug)]
pub struct MappedWords {
    start: NonNull<AtomicU64>,
    count: usize,
}

// SAFETY: the memory is accessed as atomic words only, and unmapped when the value is dropped.
unsafe impl Send for MappedWords {}
// SAFETY: as above.
unsafe impl Sync for MappedWords {}

impl MappedWords {
    /// Maps the first `bytes` of a file, or of a device's memory, rounded down to words. It must
    /// not become shorter afterwards: an access beyond its end kills the process.
    ///
    /// # Errors
    /// Those of mmap(2), and if no word is left.
    pub fn map(file: &File, bytes: usize, writable: bool) -> Result<Self> {
        let write = if writable { ProtFlags::WRITE } else { ProtFlags::empty() };
        let flags = MapFlags::SHARED;
        let protection = ProtFlags::READ | write;
        let count = bytes / WORD_BYTES;
        if count == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        // SAFETY: the kernel chooses addresses that nothing uses.
        let start = unsafe { mmap(ptr::null_mut(), bytes, protection, flags, file, 0) }?;
        let start = NonNull::new(start.cast()).ok_or_else(|| Error::other("mapped at zero"))?;
        Ok(Self { start, count })
    }

    /// Returns the words. If they are not writable, a store to one kills the process.
    pub fn all(&self) -> &[AtomicU64] {
        // SAFETY: that many words are mapped at a page-aligned address for as long as this value
        // lives; any bytes are a valid number, and others change them atomically.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.count) }
    }
}

impl Drop for MappedWords {
    fn drop(&mut self) {
        // SAFETY: this value mapped it, and nothing that borrows from it is left.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.count * WORD_BYTES) };
        // It can fail only for lack of memory to split a mapping, and nothing is split here.
        debug_assert!(unmapped.is_ok());
    }
}

impl WordSource for MappedWords {
    fn words(&self, range: Range<usize>) -> Result<Vec<u64>> {
        let words = self.all().get(range).ok_or(ErrorKind::UnexpectedEof)?;
        Ok(words.iter().map(|word| word.load(Relaxed)).collect())
    }
}
