//! Storage for the pages of mixed chunks, in blocks: small chunks would cost as much heap overhead.

use super::page_byte::PageByte;

/// Pages per block.
const BLOCK_PAGES: usize = 4096;

/// Rows of pages, all of one length.
#[derive(Clone, Debug)]
pub struct Slab {
    row_pages: usize,
    blocks: Vec<Box<[PageByte]>>,
    /// Unused rows.
    free: Vec<u32>,
}

impl Slab {
    /// Creates a slab without rows. `row_pages` is 1 or more.
    pub fn new(row_pages: usize) -> Self {
        Self { row_pages, blocks: Vec::new(), free: Vec::new() }
    }

    fn rows_of_block(&self) -> usize {
        (BLOCK_PAGES / self.row_pages).max(1)
    }

    /// Adds a row filled with one value, and returns its index.
    pub fn add(&mut self, byte: PageByte) -> u32 {
        let row = self.free.pop().unwrap_or_else(|| {
            let rows = self.rows_of_block();
            let first = self.blocks.len() * rows;
            self.blocks.push(vec![PageByte::ABSENT; rows * self.row_pages].into());
            self.free.extend((first + 1..first + rows).rev().map(|row| row as u32));
            first as u32
        });
        self.row_mut(row).fill(byte);
        row
    }

    /// Removes a row.
    pub fn remove(&mut self, row: u32) {
        self.free.push(row);
        if self.free.len() == self.blocks.len() * self.rows_of_block() {
            *self = Self::new(self.row_pages);
        }
    }

    fn position(&self, row: u32) -> (usize, std::ops::Range<usize>) {
        let rows = self.rows_of_block();
        let first = row as usize % rows * self.row_pages;
        (row as usize / rows, first..first + self.row_pages)
    }

    /// Returns the pages of a row.
    pub fn row(&self, row: u32) -> &[PageByte] {
        let (block, pages) = self.position(row);
        &self.blocks[block][pages]
    }

    /// Returns the pages of a row, mutable.
    pub fn row_mut(&mut self, row: u32) -> &mut [PageByte] {
        let (block, pages) = self.position(row);
        &mut self.blocks[block][pages]
    }

    /// Returns the memory in use, in bytes.
    pub fn heap_bytes(&self) -> usize {
        let pages: usize = self.blocks.iter().map(|block| block.len()).sum();
        let block = size_of::<Box<[PageByte]>>();
        pages * size_of::<PageByte>()
            + self.blocks.capacity() * block
            + self.free.capacity() * size_of::<u32>()
    }
}
