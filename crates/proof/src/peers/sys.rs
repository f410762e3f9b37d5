//! The only module with unsafe code: the allocators' C functions. They return memory as a
//! [`AllocatedBlock`], which cannot be freed twice, with another size or by another allocator.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::slice;

use libmimalloc_sys::{mi_free, mi_malloc_aligned, mi_zalloc_aligned};
use tikv_jemalloc_sys::{MALLOCX_ALIGN, MALLOCX_ZERO, mallocx, sdallocx};

/// Alignment of blocks in bytes: the size of a page.
pub const ALIGN: usize = 4096;

/// mimalloc, version 3, with default options.
#[derive(Clone, Copy, Debug)]
pub struct Mimalloc;

/// jemalloc, version 5, with default options.
#[derive(Clone, Copy, Debug)]
pub struct Jemalloc;

/// The functions of an allocator, for [`AllocatedBlock`].
pub trait Allocator {
    /// Allocates `bytes` bytes (more than zero), aligned to [`ALIGN`]. Returns null if there is no
    /// memory. The memory reads as zero if `zeroed`, else its content is undefined.
    fn allocate(bytes: usize, zeroed: bool) -> *mut c_void;

    /// Frees a block.
    ///
    /// # Safety
    /// `allocate` of this allocator must have returned it for this size, and it must not be used
    /// any more.
    unsafe fn free(start: NonNull<c_void>, bytes: usize);
}

impl Allocator for Mimalloc {
    fn allocate(bytes: usize, zeroed: bool) -> *mut c_void {
        match zeroed {
            // SAFETY: it accepts any size; the alignment is a power of two.
            true => unsafe { mi_zalloc_aligned(bytes, ALIGN) },
            // SAFETY: as above.
            false => unsafe { mi_malloc_aligned(bytes, ALIGN) },
        }
    }

    unsafe fn free(start: NonNull<c_void>, _bytes: usize) {
        // SAFETY: the caller guarantees that this allocator returned it and that it is unused.
        unsafe { mi_free(start.as_ptr()) }
    }
}

impl Allocator for Jemalloc {
    fn allocate(bytes: usize, zeroed: bool) -> *mut c_void {
        let zero = if zeroed { MALLOCX_ZERO } else { 0 };
        // SAFETY: the size is above zero, as `AllocatedBlock::new` checks, and the alignment a
        // power of two.
        unsafe { mallocx(bytes, MALLOCX_ALIGN(ALIGN) | zero) }
    }

    unsafe fn free(start: NonNull<c_void>, bytes: usize) {
        // SAFETY: the caller guarantees that this allocator returned it for this size, and that it
        // is unused; the alignment is always the same.
        unsafe { sdallocx(start.as_ptr(), bytes, MALLOCX_ALIGN(ALIGN)) }
    }
}

/// Memory of an allocator, which is freed with the value, on any thread.
#[derive(Debug)]
pub struct AllocatedBlock<A: Allocator> {
    start: NonNull<c_void>,
    bytes: usize,
    allocator: PhantomData<A>,
}

// SAFETY: the block is accessible through this value alone, and both allocators can free on one
// thread what another thread allocated.
unsafe impl<A: Allocator> Send for AllocatedBlock<A> {}

impl<A: Allocator> AllocatedBlock<A> {
    /// Allocates `bytes` bytes, which read as zero if `zeroed`. Returns `None` if there is no
    /// memory, or `bytes` is zero.
    pub fn new(bytes: usize, zeroed: bool) -> Option<Self> {
        if bytes == 0 {
            return None;
        }
        let start = NonNull::new(A::allocate(bytes, zeroed))?;
        Some(Self { start, bytes, allocator: PhantomData })
    }
}

impl<A: Allocator> Deref for AllocatedBlock<A> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the block is `bytes` long and stays until `self` is dropped, which the borrow
        // forbids; both allocators get their memory from mmap(2), so every byte has a value.
        unsafe { slice::from_raw_parts(self.start.as_ptr().cast::<u8>(), self.bytes) }
    }
}

impl<A: Allocator> DerefMut for AllocatedBlock<A> {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above; the mutable borrow of `self` leaves no other access to the block.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr().cast::<u8>(), self.bytes) }
    }
}

impl<A: Allocator> Drop for AllocatedBlock<A> {
    fn drop(&mut self) {
        // SAFETY: `new` got it from this allocator for this size, and no borrow of it is left.
        unsafe { A::free(self.start, self.bytes) }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    fn is_filled_with(block: &[u8], wanted: u8) -> bool {
        block.iter().all(|&byte| byte == wanted)
    }

    /// Allocates blocks of the measured sizes, writes to them, and frees half on another thread.
    fn allocate_and_free<A: Allocator>() {
        for zeroed in [false, true] {
            for (bytes, count) in [(ALIGN, 64), (ALIGN << 9, 4)] {
                let mut blocks: Vec<_> =
                    (0..count).map(|_| AllocatedBlock::<A>::new(bytes, zeroed).unwrap()).collect();
                for (number, block) in (1..).zip(&mut blocks) {
                    assert!(block.as_ptr().addr().is_multiple_of(ALIGN));
                    assert!(!zeroed || is_filled_with(block, 0), "not zeroed");
                    block.fill(number);
                }
                for (number, block) in (1..).zip(&blocks) {
                    assert!(is_filled_with(block, number), "blocks overlap");
                }
                let half = blocks.split_off(count / 2);
                thread::scope(|scope| {
                    scope.spawn(move || drop(half));
                });
            }
        }
    }

    /// Goal: blocks are aligned, zero where requested although the memory was used before, and do
    /// not overlap; and the two allocators work in one process.
    #[test]
    fn blocks_are_what_was_asked_for() {
        for _ in 0..3 {
            allocate_and_free::<Mimalloc>();
            allocate_and_free::<Jemalloc>();
        }
    }

    /// Goal: a size of zero, or one that is too large, never leads to a null pointer in a block.
    #[test]
    fn odd_sizes_are_refused() {
        for bytes in [0, usize::MAX / 2] {
            assert!(AllocatedBlock::<Mimalloc>::new(bytes, false).is_none(), "{bytes}");
            assert!(AllocatedBlock::<Jemalloc>::new(bytes, false).is_none(), "{bytes}");
        }
    }
}
