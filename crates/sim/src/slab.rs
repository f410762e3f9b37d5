//! Room for the pages of mixed chunks, in blocks: small chunks would pay as much for the heap.

use crate::space::PageByte;

/// Pages of a block.
const BLOCK_PAGES: usize = 4096;

/// Rows of pages, all of one length.
#[derive(Clone, Debug)]
pub struct Slab {
    row_pages: usize,
    blocks: Vec<Box<[PageByte]>>,
    /// Rows that are not in use.
    free: Vec<u32>,
}

impl Slab {
    /// Without rows. A row has so many pages, 1 or more.
    pub fn new(row_pages: usize) -> Self {
        Self { row_pages, blocks: Vec::new(), free: Vec::new() }
    }

    fn rows_of_block(&self) -> usize {
        (BLOCK_PAGES / self.row_pages).max(1)
    }

    /// A row with this in every place.
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

    /// Gives a row back.
    pub fn remove(&mut self, row: u32) {
        self.free.push(row);
        if self.free.len() == self.blocks.len() * self.rows_of_block() {
            *self = Self::new(self.row_pages);
        }
    }

    fn place(&self, row: u32) -> (usize, std::ops::Range<usize>) {
        let rows = self.rows_of_block();
        let first = row as usize % rows * self.row_pages;
        (row as usize / rows, first..first + self.row_pages)
    }

    /// The pages of a row.
    pub fn row(&self, row: u32) -> &[PageByte] {
        let (block, pages) = self.place(row);
        &self.blocks[block][pages]
    }

    /// The same, to be changed.
    pub fn row_mut(&mut self, row: u32) -> &mut [PageByte] {
        let (block, pages) = self.place(row);
        &mut self.blocks[block][pages]
    }

    /// The memory that this takes.
    pub fn bytes(&self) -> usize {
        let pages: usize = self.blocks.iter().map(|block| block.len()).sum();
        let block = size_of::<Box<[PageByte]>>();
        pages * size_of::<PageByte>()
            + self.blocks.capacity() * block
            + self.free.capacity() * size_of::<u32>()
    }
}
