//! Finds the pages of a nearly empty mapping, where the kernel tells how many there are and not
//! where.
//!
//! To read the addresses of a terabyte takes seconds. So those are read first at which programs
//! begin with memory: both ends of the mapping, then multiples of ever smaller powers of two, of
//! addresses and from the beginning of the mapping; and from a page on its neighbours. The search
//! ends when as many pages are found as the kernel counts, of which a program at work frees some
//! meanwhile.

use nodeward_machine::{Process, Result};
use nodeward_model::{PageLocation, PageSet, Range};

use crate::sparse::{PAGE_TABLE_BYTES, TABLES_MIN, counted_in};

/// The search may read one in this number of the page tables. If that is not enough, pages may be
/// anywhere, and all page tables are read one after the other, by all workers.
const TABLES_PER_READ: u64 = 8;
/// Number of page tables after which the kernel counts once more, and bytes in memory for one
/// further table: to read one table takes as long as to count the pages of half a megabyte.
const TABLES_PER_COUNT: u64 = 4096;
const BYTES_PER_TABLE: u64 = 256 << 10;

/// Returns ranges that hold all pages of a range, of which the kernel has counted `counted`. Where
/// `is_over` returns true, the rest counts as populated.
///
/// # Errors
/// If the process is gone or cannot be read.
pub fn search(
    process: &dyn Process,
    range: Range,
    counted: u64,
    is_over: &dyn Fn() -> bool,
) -> Result<Vec<Range>> {
    let set = || PageSet::new(PAGE_TABLE_BYTES);
    let per_count = TABLES_PER_COUNT.max(process.resident_bytes()? / BYTES_PER_TABLE);
    let mut search = SparseSearch {
        process,
        range,
        counted,
        per_count,
        next_count: per_count,
        is_over,
        empty: set(),
        populated: set(),
        found: 0,
        places: Vec::new(),
    };
    search.read_where_memory_begins()?;
    Ok(match search.found < search.counted {
        true => search.empty.ranges_without(range),
        false => joined(search.populated.iter(), range),
    })
}

/// Returns the page tables at ascending addresses, as far as they are in a range.
fn joined(tables: impl Iterator<Item = u64>, range: Range) -> Vec<Range> {
    let mut ranges: Vec<Range> = Vec::new();
    for start in tables {
        let table = Range::new(start, start.saturating_add(PAGE_TABLE_BYTES));
        let Some(part) = table.intersection(range) else { continue };
        match ranges.last_mut() {
            Some(last) if last.end == part.start => last.end = part.end,
            _ => ranges.push(part),
        }
    }
    ranges
}

struct SparseSearch<'a> {
    process: &'a dyn Process,
    range: Range,
    /// Pages in it.
    counted: u64,
    /// Number of page tables to read between two counts, and the number read at which the next
    /// count is due.
    per_count: u64,
    next_count: u64,
    is_over: &'a dyn Fn() -> bool,
    /// Page tables that were read, without pages and with some.
    empty: PageSet,
    populated: PageSet,
    /// Pages in the latter.
    found: u64,
    places: Vec<PageLocation>,
}

impl SparseSearch<'_> {
    fn read_where_memory_begins(&mut self) -> Result<()> {
        let Range { start, end } = self.range;
        let first = start - start % PAGE_TABLE_BYTES;
        self.read_from(end - 1)?;
        let mut step = self.range.bytes().next_power_of_two().max(PAGE_TABLE_BYTES);
        while step >= PAGE_TABLE_BYTES {
            let multiple = start.next_multiple_of(step);
            for at in
                (first..end).step_by(step as usize).chain((multiple..end).step_by(step as usize))
            {
                if self.is_done() {
                    return Ok(());
                }
                self.read_from(at)?;
                self.count_again()?;
            }
            step /= 2;
        }
        Ok(())
    }

    fn is_done(&self) -> bool {
        let tables = self.range.bytes() / PAGE_TABLE_BYTES;
        self.found >= self.counted
            || self.tables_read() >= TABLES_MIN.max(tables / TABLES_PER_READ)
            || (self.is_over)()
    }

    fn tables_read(&self) -> u64 {
        self.empty.len() + self.populated.len()
    }

    /// Counts the pages that are still there, now and then.
    fn count_again(&mut self) -> Result<()> {
        if self.tables_read() < self.next_count || self.is_done() {
            return Ok(());
        }
        self.next_count += self.per_count;
        let counted = self.process.pages_by_mapping()?.unwrap_or_default();
        if let Some(now) = counted_in(&counted, self.range) {
            self.counted = self.counted.min(now.values().sum());
        }
        Ok(())
    }

    /// Reads the page table of an address, and its neighbours for as long as there are pages.
    fn read_from(&mut self, address: u64) -> Result<()> {
        if !self.read_table(address)? {
            return Ok(());
        }
        let up = (1..).map_while(|n| address.checked_add(n * PAGE_TABLE_BYTES));
        let down = (1..).map_while(|n| address.checked_sub(n * PAGE_TABLE_BYTES));
        for at in up {
            if self.is_done() || !self.read_table(at)? {
                break;
            }
        }
        for at in down {
            if self.is_done() || !self.read_table(at)? {
                break;
            }
        }
        Ok(())
    }

    /// Returns whether a page table that was not read yet has pages of the range.
    fn read_table(&mut self, address: u64) -> Result<bool> {
        let start = address - address % PAGE_TABLE_BYTES;
        let table = Range::new(start, start.saturating_add(PAGE_TABLE_BYTES));
        let is_read = self.empty.contains(start) || self.populated.contains(start);
        let Some(part) = table.intersection(self.range).filter(|_| !is_read) else {
            return Ok(false);
        };
        self.places.clear();
        self.process.locations(part, &mut self.places)?;
        let is_there = |place: &&PageLocation| **place != PageLocation::Absent;
        let pages = self.places.iter().filter(is_there).count() as u64;
        self.found += pages;
        match pages {
            0 => self.empty.insert(start),
            _ => self.populated.insert(start),
        };
        Ok(pages > 0)
    }
}

#[cfg(test)]
mod tests {
    use nodeward_machine::Machine;
    use nodeward_machine::fake::{FakeMachine, FakeProcess};
    use nodeward_model::{NodeId, Page, Pid};

    use super::*;
    use crate::survey::never;

    const PAGE: u64 = 4096;
    const GIB: u64 = 1 << 30;
    const TIB: u64 = 1 << 40;

    /// Searches a mapping for pages, runs of which begin at these addresses; returns what was found
    /// and the number of reads.
    fn found(
        range: Range,
        runs: &[(u64, u64)],
        counted: u64,
        is_over: &dyn Fn() -> bool,
    ) -> (Vec<Range>, u64) {
        let mut process = FakeProcess::with_pages(&[]);
        process.mappings[0].range = range;
        for &(start, pages) in runs {
            let numbers = start / PAGE..start / PAGE + pages;
            process.pages.extend(numbers.map(|number| (number, Page::on(NodeId(0)))));
        }
        let machine = FakeMachine::new(false).without_pagemap_scan();
        let pid = Pid::new(7).unwrap();
        machine.spawn(pid, process);
        let held = machine.open_process(pid).unwrap();
        let ranges = search(&*held, range, counted, is_over).unwrap();
        (ranges, machine.process(pid).unwrap().page_reads)
    }

    fn tables(start: u64, tables: u64) -> Range {
        Range::new(start, start + tables * PAGE_TABLE_BYTES)
    }

    /// Goal: memory that begins at the ends of 16 TiB, at a multiple of 64 GiB and at a multiple
    /// from the beginning is found with few reads: a grid of 64 GiB has 256 places.
    #[test]
    fn memory_is_found_where_programs_put_it() {
        let start = 5 * TIB + 3 * GIB;
        let range = Range::new(start, start + 16 * TIB);
        let places = [start, 6 * TIB + 64 * GIB, start + 9 * TIB, range.end - PAGE_TABLE_BYTES];
        let runs: Vec<_> = places.iter().map(|&at| (at, 100)).collect();
        let (ranges, reads) = found(range, &runs, 400, &never);
        assert_eq!(ranges, places.map(|at| tables(at, 1)));
        assert!(reads < 2 * 2 * 256 + 20, "{reads}");
    }

    /// Goal: memory that goes on over many page tables, before and behind where it was found, is
    /// found as a whole, to the odd ends of the mapping.
    #[test]
    fn neighbours_are_found() {
        let range = Range::new(TIB + PAGE, 2 * TIB - PAGE);
        let middle = TIB + TIB / 2;
        let runs = [
            (middle - 3 * PAGE_TABLE_BYTES, 6 * 512),
            (range.start, 511 + 512),
            (range.end - PAGE, 1),
        ];
        let (ranges, reads) = found(range, &runs, 6 * 512 + 511 + 512 + 1, &never);
        let expected = [
            Range::new(range.start, TIB + 2 * PAGE_TABLE_BYTES),
            tables(middle - 3 * PAGE_TABLE_BYTES, 6),
            Range::new(2 * TIB - PAGE_TABLE_BYTES, range.end),
        ];
        assert_eq!(ranges, expected);
        assert!(reads < 20, "{reads}");
    }

    /// Goal: pages that the program has freed since they were counted are not looked for: the count
    /// said 100, and one is left. That is seen after 4096 of 524,288 page tables.
    #[test]
    fn freed_pages_are_not_looked_for() {
        let range = Range::new(TIB, 2 * TIB);
        let (ranges, reads) = found(range, &[(TIB, 1)], 100, &never);
        assert_eq!(ranges, [tables(TIB, 1)]);
        assert_eq!(reads, TABLES_PER_COUNT);
    }

    /// Goal: pages at places like no program's are all in the ranges that are returned, after an
    /// eighth of the page tables was read: 8192 tables are 16 GiB.
    #[test]
    fn what_is_not_found_is_read() {
        let range = Range::new(TIB, TIB + 16 * GIB);
        let odd = TIB + 4711 * PAGE_TABLE_BYTES + 42 * PAGE;
        let (ranges, reads) = found(range, &[(odd, 1)], 2, &never);
        assert!(ranges.iter().any(|range| (range.start..range.end).contains(&odd)), "{ranges:?}");
        assert_eq!(reads, 1024);
        let bytes: u64 = ranges.iter().map(|range| range.bytes()).sum();
        let unread = (8192 - 1024) * PAGE_TABLE_BYTES;
        assert!((unread..=unread + PAGE_TABLE_BYTES).contains(&bytes));
    }

    /// Goal: a search that is over reads nothing more, and returns the rest: all but the last page
    /// table, which is read first.
    #[test]
    fn a_search_that_is_over_leaves_the_rest() {
        let range = Range::new(TIB, 2 * TIB);
        let (ranges, reads) = found(range, &[(TIB, 1)], 1, &|| true);
        assert_eq!((ranges, reads), (vec![Range::new(TIB, 2 * TIB - PAGE_TABLE_BYTES)], 1));
    }
}
