//! /proc/PID/pagemap: one 64-bit entry per base page.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use nodeward_model::Range;

/// One entry (`Documentation/admin-guide/mm/pagemap.rst` of the kernel).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry(u64);

impl Entry {
    /// From the bytes in the file.
    pub fn from_bytes(bytes: [u8; 8]) -> Self {
        Self(u64::from_ne_bytes(bytes))
    }

    /// In memory.
    pub fn is_present(self) -> bool {
        self.0 >> 63 & 1 == 1
    }

    /// In swap, or for a moment in flight between two places.
    pub fn is_swapped(self) -> bool {
        self.0 >> 62 & 1 == 1
    }

    /// Mapped by this process only.
    pub fn is_exclusive(self) -> bool {
        self.0 >> 56 & 1 == 1
    }

    /// The page frame number; `None` if the page is not present or the number is hidden from us.
    pub fn frame(self) -> Option<u64> {
        let frame = self.0 & ((1 << 55) - 1);
        (self.is_present() && frame != 0).then_some(frame)
    }
}

/// Reads the entries of a page-aligned range.
///
/// # Errors
/// As read(2); an early end of the file (the address space is gone) is `UnexpectedEof`.
pub fn entries(pagemap: &File, range: Range, page_bytes: u64) -> io::Result<Vec<Entry>> {
    let pages = usize::try_from(range.bytes() / page_bytes).map_err(io::Error::other)?;
    let mut bytes = vec![0; pages * 8];
    pagemap.read_exact_at(&mut bytes, range.start / page_bytes * 8)?;
    let entry = |chunk: &[u8]| Entry::from_bytes(chunk.try_into().unwrap_or_default());
    Ok(bytes.chunks_exact(8).map(entry).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_mean_what_the_kernel_documents() {
        let present = Entry(1 << 63 | 1 << 56 | 0x1234);
        assert!(present.is_present() && present.is_exclusive() && !present.is_swapped());
        assert_eq!(present.frame(), Some(0x1234));
        let hidden = Entry(1 << 63);
        assert_eq!(hidden.frame(), None);
        let swapped = Entry(1 << 62 | 0x55);
        assert!(swapped.is_swapped());
        assert_eq!(swapped.frame(), None, "a swap offset is not a frame");
    }
}
