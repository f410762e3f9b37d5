//! The pages of a process as its page tables show them, read one page table at a time.

use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::sync::Arc;

use nodeward_machine::{Error, Result};
use nodeward_model::{Mapping, NodeId, Page, PageLocation, Pid, Range};

use crate::file_error::file_error;
use crate::frames::{FrameFlags, FrameMap, LazyFrameMap};
use crate::pagemap::{self, NonPresent, PAGE_TABLE_PAGES, PagemapEntry, PagemapWindow, WindowPart};
use crate::{move_pages, populated, sys};

/// Limit on the pages of one query; the kernel releases the target's lock after every 16.
const QUERY_PAGES_MAX: usize = 4096;
/// The shortest run of consecutive frames for which reading their flags pays off.
const FOLIO_PAGES_MIN: usize = 16;

/// The page tables of a process.
#[derive(Debug)]
pub struct PageTables {
    pid: Pid,
    pagemap: File,
    frames: Arc<LazyFrameMap>,
    has_swap: bool,
    page_bytes: u64,
}

impl PageTables {
    /// Takes the open pagemap of a process. `has_swap` tells whether the machine has swap areas.
    pub fn new(
        pid: Pid,
        pagemap: File,
        frames: Arc<LazyFrameMap>,
        has_swap: bool,
        page_bytes: u64,
    ) -> Self {
        Self { pid, pagemap, frames, has_swap, page_bytes }
    }

    /// Returns the bytes of a base page.
    pub fn page_bytes(&self) -> u64 {
        self.page_bytes
    }

    /// Returns whether pages may be in swap.
    pub fn has_swap(&self) -> bool {
        self.has_swap
    }

    /// Returns whether frame numbers can be read.
    pub fn shows_frames(&self) -> bool {
        self.frames.get().is_some()
    }

    /// Reads the entry of the page that begins at an address.
    ///
    /// # Errors
    /// Those of read(2); `UnexpectedEof` if the address space is gone.
    pub fn entry(&self, address: u64) -> io::Result<PagemapEntry> {
        pagemap::entry(&self.pagemap, address, self.page_bytes)
    }

    /// Returns the parts of a range that hold pages, where the kernel lists them (PAGEMAP_SCAN).
    pub fn populated(&self, range: Range) -> Result<Vec<Range>> {
        populated::populated(self.pagemap.as_fd(), range).map_err(|source| self.failed(source))
    }

    /// Appends the states of the pages of parts of mappings, which ascend.
    pub fn states(&self, parts: &[(&Mapping, Range)], into: &mut Vec<Page>) -> Result<()> {
        let mut places = Vec::with_capacity(PAGE_TABLE_PAGES);
        self.for_each_part(parts, |(mapping, _), piece, entries| {
            places.clear();
            self.part_locations(piece, entries, &mut places)?;
            let first = into.len();
            into.extend(entries.iter().zip(&places).map(|(entry, &place)| {
                let shared = entry.is_present() && !entry.is_exclusive();
                Page { location: place, shared, folio_pages: 1 }
            }));
            match mapping.huge_page_bytes {
                Some(bytes) => mark_hugetlb(&mut into[first..], piece, self.page_bytes, bytes),
                None => self.mark_folios(entries, &mut into[first..]),
            }
            Ok(())
        })
    }

    /// Returns whether a range without hugetlb memory has pages that belong to one folio.
    pub fn has_folio(&self, range: Range) -> Result<bool> {
        let mut has_one = false;
        self.for_each_part(&[range], |_, _, entries| {
            let page = |_| Page { folio_pages: 1, ..Page::ABSENT };
            let mut pages: Vec<Page> = entries.iter().map(page).collect();
            self.mark_folios(entries, &mut pages);
            has_one |= pages.iter().any(|page| page.folio_pages > 1);
            Ok(())
        })?;
        Ok(has_one)
    }

    /// Appends the places of the pages of ranges, which ascend.
    pub fn locations(&self, ranges: &[Range], into: &mut Vec<PageLocation>) -> Result<()> {
        self.for_each_part(ranges, |_, piece, entries| self.part_locations(piece, entries, into))
    }

    /// Appends the frame numbers of the pages of a range.
    pub fn frames(&self, range: Range, into: &mut Vec<Option<u64>>) -> Result<()> {
        self.for_each_part(&[range], |_, _, entries| {
            into.extend(entries.iter().map(PagemapEntry::frame));
            Ok(())
        })
    }

    /// Queries the places of single pages.
    pub fn locate(&self, addresses: &[u64]) -> Result<Vec<PageLocation>> {
        let mut places = Vec::with_capacity(addresses.len());
        for chunk in addresses.chunks(QUERY_PAGES_MAX) {
            let mut status = vec![0; chunk.len()];
            sys::query_pages(self.pid.number(), chunk, &mut status)
                .map_err(|source| move_pages::query_error(self.pid, source))?;
            places.extend(
                chunk.iter().zip(&status).map(|(&at, &code)| self.reported_location(at, code)),
            );
        }
        Ok(places)
    }

    /// Calls `look` with the entries of each part, one page table at a time. What is in one page
    /// table is read in one call: on Linux 6.1 each call goes through the rest of the table,
    /// however little is asked for.
    fn for_each_part<T: HasRange>(
        &self,
        parts: &[T],
        mut look: impl FnMut(&T, Range, WindowPart<'_>) -> Result<()>,
    ) -> Result<()> {
        let table_bytes = PAGE_TABLE_PAGES as u64 * self.page_bytes;
        let mut window = PagemapWindow::new();
        for (at, part) in parts.iter().enumerate() {
            for piece in part.range().aligned_pieces(table_bytes) {
                if !window.holds(piece) {
                    let table_end = (piece.start / table_bytes + 1).saturating_mul(table_bytes);
                    let wanted = Range::new(piece.start, last_end(&parts[at..], table_end));
                    let read = window.read(&self.pagemap, wanted, self.page_bytes);
                    read.map_err(|source| self.failed(source))?;
                }
                look(part, piece, window.part(piece, self.page_bytes))?;
            }
        }
        Ok(())
    }

    fn failed(&self, source: io::Error) -> Error {
        file_error(self.pid, PathBuf::from(format!("/proc/{}/pagemap", self.pid)), source)
    }

    /// Appends the places of the pages of a part. Pages whose frame numbers do not give their node
    /// are queried.
    fn part_locations(
        &self,
        range: Range,
        part: WindowPart<'_>,
        into: &mut Vec<PageLocation>,
    ) -> Result<()> {
        if part.is_empty() {
            into.resize(into.len() + part.iter().len(), PageLocation::Absent);
            return Ok(());
        }
        let frames = self.frames.get();
        let first = into.len();
        let mut unknown = Vec::new();
        for (index, entry) in part.iter().enumerate() {
            let place = self.location_of_entry(entry, frames);
            unknown.extend(place.is_none().then_some(index));
            into.push(place.unwrap_or(PageLocation::Absent));
        }
        if unknown.is_empty() {
            return Ok(());
        }
        let address = |&i: &usize| range.start + i as u64 * self.page_bytes;
        let addresses: Vec<u64> = unknown.iter().map(address).collect();
        for (&i, place) in unknown.iter().zip(self.locate(&addresses)?) {
            into[first + i] = place;
        }
        Ok(())
    }

    /// Returns the place of an entry's page; `None` if only a query can tell.
    fn location_of_entry(
        &self,
        entry: PagemapEntry,
        frames: Option<&FrameMap>,
    ) -> Option<PageLocation> {
        if !entry.is_present() {
            return Some(self.location_if_not_present(entry));
        }
        let frame = entry.frame()?;
        let frames = frames?;
        if frames.is_zero(frame)? {
            Some(PageLocation::Unmovable)
        } else {
            frames.node(frame).map(PageLocation::On)
        }
    }

    /// Returns the place of a page by the kernel's status code. If the code does not give a node,
    /// its entry is read.
    fn reported_location(&self, address: u64, code: i32) -> PageLocation {
        if let Ok(node) = u32::try_from(code) {
            return PageLocation::On(NodeId(node));
        }
        let start = address - address % self.page_bytes;
        match self.entry(start) {
            Ok(entry) if entry.is_present() => self.location_of_unreported(start, entry),
            Ok(entry) => self.location_if_not_present(entry),
            Err(_) => PageLocation::Absent,
        }
    }

    /// Returns the place of a page that is present though the kernel's status had no node: it never
    /// moves, or it was mapped (for example by a new mapping at the same address) after the query.
    fn location_of_unreported(&self, address: u64, entry: PagemapEntry) -> PageLocation {
        self.location_of_entry(entry, self.frames.get()).unwrap_or_else(|| {
            let mut status = [-1];
            let asked = sys::query_pages(self.pid.number(), &[address], &mut status);
            let node = asked.ok().and_then(|()| u32::try_from(status[0]).ok());
            node.map_or(PageLocation::Unmovable, |node| PageLocation::On(NodeId(node)))
        })
    }

    /// Returns the place of a page that is not present.
    fn location_if_not_present(&self, entry: PagemapEntry) -> PageLocation {
        match entry.non_present() {
            None | Some(NonPresent::Marker) => PageLocation::Absent,
            Some(NonPresent::Migration) => PageLocation::InFlight,
            Some(NonPresent::Swap) if !self.has_swap => PageLocation::InFlight,
            Some(NonPresent::Swap) => PageLocation::Swapped,
        }
    }

    /// Marks folios: runs of consecutive frames whose flags show that they belong together. One
    /// frame of each window is checked first, because the kernel takes as long to show flags as to
    /// show entries. Folios that are missed that way are moved all the same, a little slower.
    fn mark_folios(&self, part: WindowPart<'_>, pages: &mut [Page]) {
        let Some(frames) = self.frames.get() else { return };
        for (at, first, length) in runs_of_frames(part.iter(), FOLIO_PAGES_MIN) {
            let pages = &mut pages[at..at + length];
            if length == PAGE_TABLE_PAGES && frames.is_page_table_folio(first) {
                mark_one_folio(pages);
            } else if frames.is_in_folio(first + 1) {
                mark_folios_in_run(pages, &frames.flags(first, length));
            }
        }
    }
}

/// Memory that is looked at.
trait HasRange {
    fn range(&self) -> Range;
}

impl HasRange for Range {
    fn range(&self) -> Range {
        *self
    }
}

impl HasRange for (&Mapping, Range) {
    fn range(&self) -> Range {
        self.1
    }
}

/// Returns the end of the last of these parts that begins before `limit`, but not more than that.
fn last_end<T: HasRange>(parts: &[T], limit: u64) -> u64 {
    let ends = parts.iter().map(HasRange::range).take_while(|range| range.start < limit);
    ends.last().map_or(limit, |range| range.end.min(limit))
}

/// Returns the runs of at least `length_min` consecutive frames: the index of the first entry, its
/// frame, and the number of frames.
fn runs_of_frames(
    entries: impl Iterator<Item = PagemapEntry>,
    length_min: usize,
) -> Vec<(usize, u64, usize)> {
    let mut runs = Vec::new();
    let mut run = (0, 0, 0);
    for (index, frame) in entries.map(PagemapEntry::frame).chain([None]).enumerate() {
        let (_, first, length) = run;
        if frame == Some(first + length as u64) && length > 0 {
            run.2 += 1;
            continue;
        }
        runs.extend((length >= length_min).then_some(run));
        run = (index, frame.unwrap_or(0), usize::from(frame.is_some()));
    }
    runs
}

fn mark_folios_in_run(pages: &mut [Page], flags: &[FrameFlags]) {
    let mut head = 0;
    for (i, flag) in flags.iter().enumerate() {
        if flag.is_zero() {
            pages[i].location = PageLocation::Unmovable;
        }
        if i > 0 && flag.is_tail() {
            pages[i].folio_pages = 0;
            pages[head].folio_pages += 1;
        } else {
            head = i;
        }
    }
}

/// Marks all of these pages as one folio.
fn mark_one_folio(pages: &mut [Page]) {
    pages.iter_mut().for_each(|page| page.folio_pages = 0);
    pages[0].folio_pages = u32::try_from(pages.len()).unwrap_or(u32::MAX);
}

/// Marks every aligned `huge_bytes` of a hugetlb mapping as one folio.
fn mark_hugetlb(pages: &mut [Page], range: Range, page_bytes: u64, huge_bytes: u64) {
    let pages_per_folio = u32::try_from(huge_bytes / page_bytes).unwrap_or(u32::MAX);
    for (i, page) in pages.iter_mut().enumerate() {
        let address = range.start + i as u64 * page_bytes;
        page.folio_pages = if address.is_multiple_of(huge_bytes) { pages_per_folio } else { 0 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_that_follow_each_other_are_one_run() {
        let present = |frame: u64| PagemapEntry::from_bytes((1 << 63 | frame).to_ne_bytes());
        let absent = PagemapEntry::from_bytes([0; 8]);
        let entries = [present(7), present(8), absent, present(9), present(10), present(3)];
        assert_eq!(runs_of_frames(entries.into_iter(), 1), [(0, 7, 2), (3, 9, 2), (5, 3, 1)]);
        assert_eq!(runs_of_frames(entries.into_iter(), 2), [(0, 7, 2), (3, 9, 2)]);
    }

    #[test]
    fn a_hugetlb_page_counts_once_at_its_head() {
        let mut pages = vec![Page::on(NodeId(0)); 1024];
        mark_hugetlb(&mut pages, Range::new(0x20_0000, 0x60_0000), 4096, 2 << 20);
        let heads: Vec<_> = (0..1024).filter(|&i| pages[i].folio_pages > 0).collect();
        assert_eq!(heads, [0, 512]);
        assert_eq!(pages.iter().map(|p| p.folio_pages).sum::<u32>(), 1024);
    }
}
