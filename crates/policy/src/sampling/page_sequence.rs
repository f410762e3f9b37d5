//! Concatenates address ranges, so that their pages can be numbered.

use nodeward_model::Range;

/// The pages of several ranges, numbered from 0 without the holes between them.
#[derive(Clone, Debug, Default)]
pub struct PageSequence {
    ranges: Vec<Range>,
    starts: Vec<u64>, // number of the first page of each range
    pages: u64,
    page_bytes: u64,
}

impl PageSequence {
    /// Concatenates page-aligned ranges; `page_bytes` is the size of a base page.
    pub fn new(ranges: Vec<Range>, page_bytes: u64) -> Self {
        let mut pages = 0;
        let mut starts = Vec::with_capacity(ranges.len());
        for range in &ranges {
            starts.push(pages);
            pages += range.bytes() / page_bytes;
        }
        Self { ranges, starts, pages, page_bytes }
    }

    /// Returns the number of pages.
    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// Returns the ranges that it was made of.
    pub fn ranges(&self) -> &[Range] {
        &self.ranges
    }

    /// Returns the address of a page by its number, which must be below [`PageSequence::pages`].
    pub fn address(&self, page: u64) -> u64 {
        let range = self.starts.partition_point(|&start| start <= page) - 1;
        self.ranges[range].start + (page - self.starts[range]) * self.page_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_numbered_across_holes() {
        let ranges = vec![Range::new(0, 8192), Range::new(4096 * 9, 4096 * 10)];
        let line = PageSequence::new(ranges, 4096);
        let addresses: Vec<u64> = (0..line.pages()).map(|page| line.address(page)).collect();
        assert_eq!(addresses, [0, 4096, 4096 * 9]);
    }

    #[test]
    fn empty_ranges_hold_no_page() {
        let line = PageSequence::new(vec![Range::new(4096, 4096), Range::new(8192, 12288)], 4096);
        assert_eq!((line.pages(), line.address(0)), (1, 8192));
    }
}
