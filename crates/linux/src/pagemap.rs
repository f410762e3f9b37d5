//! /proc/PID/pagemap: one 64-bit entry per base page.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use nodeward_model::Range;

/// The entry that the kernel put in place of a page. All of these show as swap in pagemap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NonPresent {
    /// The page is in swap; or in flight, if this process may not see the difference.
    Swap,
    /// The page is in flight between two places (permanently, if it belongs to a device or is
    /// broken).
    Migration,
    /// There is no page: a guard region, or a marker of userfaultfd.
    Marker,
}

/// Entry types from here on are not swap areas (`MAX_SWAPFILES` in include/linux/swap.h; the lowest
/// value in any configuration).
const SWAP_AREAS_MAX: u64 = 23;
/// The last type is that of markers (`SWP_PTE_MARKER` in the same file).
const MARKER: u64 = 31;

/// One entry (`Documentation/admin-guide/mm/pagemap.rst` of the kernel).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PagemapEntry(u64);

impl PagemapEntry {
    /// Decodes the bytes in the file.
    pub fn from_bytes(bytes: [u8; 8]) -> Self {
        Self(u64::from_ne_bytes(bytes))
    }

    /// Returns true if the page is in memory.
    pub fn is_present(self) -> bool {
        self.0 >> 63 & 1 == 1
    }

    /// Returns the entry in place of a page that is not present; `None` if there is none.
    pub fn non_present(self) -> Option<NonPresent> {
        let (swap_bit, guard_bit) = (self.0 >> 62 & 1 == 1, self.0 >> 58 & 1 == 1);
        // Hidden, and so zero, without the privilege to read frame numbers.
        let kind = self.0 & 31;
        match () {
            () if self.is_present() || !swap_bit => None,
            () if guard_bit || kind == MARKER => Some(NonPresent::Marker),
            () if kind >= SWAP_AREAS_MAX => Some(NonPresent::Migration),
            () => Some(NonPresent::Swap),
        }
    }

    /// Returns true if only this process maps the page.
    pub fn is_exclusive(self) -> bool {
        self.0 >> 56 & 1 == 1
    }

    /// Returns true if the page was written since soft-dirty bits were cleared, or is in a mapping
    /// that is newer than that.
    pub fn is_soft_dirty(self) -> bool {
        self.0 >> 55 & 1 == 1
    }

    /// Returns the page frame number; `None` if the page is not present or this process may not
    /// read the number.
    pub fn frame(self) -> Option<u64> {
        let frame = self.0 & ((1 << 55) - 1);
        (self.is_present() && frame != 0).then_some(frame)
    }
}

/// Pages in one page table: the largest folio that is not hugetlb.
pub const PAGE_TABLE_PAGES: usize = 512;

/// The entries of up to [`PAGE_TABLE_PAGES`] pages, in a reused buffer.
pub struct PagemapWindow {
    bytes: [u8; PAGE_TABLE_PAGES * 8],
    len: usize,
    range: Range,
}

impl PagemapWindow {
    /// Returns a window without entries.
    pub fn new() -> Self {
        Self { bytes: [0; PAGE_TABLE_PAGES * 8], len: 0, range: Range::new(0, 0) }
    }

    /// Reads the entries of a page-aligned range, which must not be longer than a window.
    ///
    /// # Errors
    /// Those of read(2); an early end of the file (the address space is gone) is `UnexpectedEof`.
    pub fn read(&mut self, pagemap: &File, range: Range, page_bytes: u64) -> io::Result<()> {
        self.range = Range::new(0, 0);
        self.len = usize::try_from(range.bytes() / page_bytes * 8).map_err(io::Error::other)?;
        pagemap.read_exact_at(&mut self.bytes[..self.len], range.start / page_bytes * 8)?;
        self.range = range;
        Ok(())
    }

    /// Returns whether all entries of a range were read.
    pub fn holds(&self, range: Range) -> bool {
        self.range.start <= range.start && range.end <= self.range.end
    }

    /// Returns the entries of a part of the range that was read.
    pub fn part(&self, range: Range, page_bytes: u64) -> WindowPart<'_> {
        let at = |address: u64| ((address - self.range.start) / page_bytes) as usize * 8;
        WindowPart(&self.bytes[at(range.start)..at(range.end)])
    }

    /// Iterates over all entries that were read.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = PagemapEntry> + '_ {
        WindowPart(&self.bytes[..self.len]).iter()
    }
}

/// Consecutive entries of a window.
#[derive(Clone, Copy)]
pub struct WindowPart<'a>(&'a [u8]);

impl<'a> WindowPart<'a> {
    /// Iterates over the entries.
    pub fn iter(self) -> impl ExactSizeIterator<Item = PagemapEntry> + 'a {
        let entry = |chunk: &[u8]| PagemapEntry::from_bytes(chunk.try_into().unwrap_or_default());
        self.0.chunks_exact(8).map(entry)
    }

    /// Returns whether none of the entries holds anything.
    pub fn is_empty(self) -> bool {
        self.0.iter().all(|&byte| byte == 0)
    }
}

/// Reads the entry of the page that begins at an address.
///
/// # Errors
/// Those of [`PagemapWindow::read`].
pub fn entry(pagemap: &File, address: u64, page_bytes: u64) -> io::Result<PagemapEntry> {
    let mut bytes = [0; 8];
    pagemap.read_exact_at(&mut bytes, address / page_bytes * 8)?;
    Ok(PagemapEntry::from_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_mean_what_the_kernel_documents() {
        let present = PagemapEntry(1 << 63 | 1 << 56 | 0x1234);
        assert!(present.is_present() && present.is_exclusive());
        assert_eq!((present.non_present(), PagemapEntry(0).non_present()), (None, None));
        assert_eq!(present.frame(), Some(0x1234));
        assert!(PagemapEntry(1 << 63 | 1 << 55).is_soft_dirty() && !present.is_soft_dirty());
        let hidden = PagemapEntry(1 << 63);
        assert_eq!(hidden.frame(), None);
    }

    /// Goal: only entries of pages in swap count as swap.
    #[test]
    fn non_present_entries_are_told_apart() {
        let entry = |kind: u64| PagemapEntry(1 << 62 | 0x55 << 5 | kind);
        assert_eq!(entry(0).frame(), None, "a swap offset is not a frame");
        for (kind, expected) in [
            (0, NonPresent::Swap),
            (22, NonPresent::Swap),
            (24, NonPresent::Migration),
            (31, NonPresent::Marker),
        ] {
            assert_eq!(entry(kind).non_present(), Some(expected), "{kind}");
        }
        assert_eq!(
            PagemapEntry(1 << 62 | 1 << 58).non_present(),
            Some(NonPresent::Marker),
            "a guard region"
        );
        assert_eq!(
            PagemapEntry(1 << 62).non_present(),
            Some(NonPresent::Swap),
            "without privilege"
        );
    }
}
