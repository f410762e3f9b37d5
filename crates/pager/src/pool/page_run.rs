//! An allocated run that is freed when its owner drops it.

use std::fmt;
use std::ops::{Deref, DerefMut};

use super::error::PoolError;
use super::options::RunRequest;
use super::page_list::FreeRun;
use super::pool::Pool;
use crate::sys::LentBytes;

/// A run of pages, used like a slice of bytes. It goes back to its pool when it is dropped.
pub struct PageRun<'p> {
    pool: &'p Pool,
    bytes: LentBytes<'p>,
}

impl<'p> PageRun<'p> {
    pub(crate) fn new(pool: &'p Pool, wanted: &RunRequest) -> Result<Self, PoolError> {
        let page = pool.allocate_guarded(wanted)?;
        let (mapping, bytes) = pool.arena.bytes_of_pages(page, 1 << wanted.order);
        Ok(Self { pool, bytes: mapping.lend(bytes) })
    }

    /// Returns the order: the run has 2^order base pages.
    pub fn order(&self) -> u32 {
        (self.bytes.bytes().len() / self.pool.arena.page_bytes()).ilog2()
    }
}

impl Deref for PageRun<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes.bytes()
    }
}

impl DerefMut for PageRun<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.bytes.bytes_mut()
    }
}

impl fmt::Debug for PageRun<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let start = self.bytes.start();
        f.debug_struct("PageRun").field("start", &start).field("order", &self.order()).finish()
    }
}

impl Drop for PageRun<'_> {
    fn drop(&mut self) {
        let page = self.pool.arena.page_at(self.bytes.start()).expect("it is of this pool");
        self.pool.free_guarded(FreeRun { page, order: self.order() });
    }
}
