//! The room where unsafe code is allowed: the allocators' C functions. What they hand out is a
//! [`Block`], which nobody can free twice, with another size or by another allocator.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::slice;

use libmimalloc_sys::{mi_free, mi_malloc_aligned, mi_zalloc_aligned};
use tikv_jemalloc_sys::{MALLOCX_ALIGN, MALLOCX_ZERO, mallocx, sdallocx};

/// Where blocks begin: at multiples of so many bytes, the size of a page.
pub const ALIGN: usize = 4096;

/// mimalloc, version 3, as it is without options.
#[derive(Clone, Copy, Debug)]
pub struct Mimalloc;

/// jemalloc, version 5, as it is without options.
#[derive(Clone, Copy, Debug)]
pub struct Jemalloc;

/// The functions of an allocator, for [`Block`].
pub trait Allocator {
    /// A block of so many bytes, above zero, that begins at a multiple of [`ALIGN`]; null if there
    /// is no memory. It reads as zero if it was to be `zeroed`, and otherwise as anything.
    fn allocate(bytes: usize, zeroed: bool) -> *mut c_void;

    /// Gives a block back.
    ///
    /// # Safety
    /// `allocate` of this allocator must have returned it for so many bytes, and nothing may use it
    /// any more.
    unsafe fn free(start: NonNull<c_void>, bytes: usize);
}

impl Allocator for Mimalloc {
    fn allocate(bytes: usize, zeroed: bool) -> *mut c_void {
        match zeroed {
            // SAFETY: it takes any size; the alignment is a power of two.
            true => unsafe { mi_zalloc_aligned(bytes, ALIGN) },
            // SAFETY: as above.
            false => unsafe { mi_malloc_aligned(bytes, ALIGN) },
        }
    }

    unsafe fn free(start: NonNull<c_void>, _bytes: usize) {
        // SAFETY: the caller says that this allocator handed it out and that it is unused.
        unsafe { mi_free(start.as_ptr()) }
    }
}

impl Allocator for Jemalloc {
    fn allocate(bytes: usize, zeroed: bool) -> *mut c_void {
        let zero = if zeroed { MALLOCX_ZERO } else { 0 };
        // SAFETY: the size is above zero, as `Block::new` checks, and the alignment a power of two.
        unsafe { mallocx(bytes, MALLOCX_ALIGN(ALIGN) | zero) }
    }

    unsafe fn free(start: NonNull<c_void>, bytes: usize) {
        // SAFETY: the caller says that this allocator handed it out for this size, and that it is
        // unused; the alignment is always the same.
        unsafe { sdallocx(start.as_ptr(), bytes, MALLOCX_ALIGN(ALIGN)) }
    }
}

/// Memory that an allocator handed out and that goes back to it with the value, on any thread.
#[derive(Debug)]
pub struct Block<A: Allocator> {
    start: NonNull<c_void>,
    bytes: usize,
    allocator: PhantomData<A>,
}

// SAFETY: the block is reached through this value alone, and both allocators take back on one
// thread what they handed out on another.
unsafe impl<A: Allocator> Send for Block<A> {}

impl<A: Allocator> Block<A> {
    /// So many bytes, that read as zero if they are to be `zeroed`; none if there is no memory, or
    /// none was asked for.
    pub fn new(bytes: usize, zeroed: bool) -> Option<Self> {
        if bytes == 0 {
            return None;
        }
        let start = NonNull::new(A::allocate(bytes, zeroed))?;
        Some(Self { start, bytes, allocator: PhantomData })
    }
}

impl<A: Allocator> Deref for Block<A> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the block is `bytes` long and stays until `self` is dropped, which the borrow
        // forbids; both allocators have their memory from mmap(2), so every byte holds a value.
        unsafe { slice::from_raw_parts(self.start.as_ptr().cast::<u8>(), self.bytes) }
    }
}

impl<A: Allocator> DerefMut for Block<A> {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above; the borrow of `self` leaves no other way to the block.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr().cast::<u8>(), self.bytes) }
    }
}

impl<A: Allocator> Drop for Block<A> {
    fn drop(&mut self) {
        // SAFETY: `new` got it from this allocator for this size, and no borrow of it is left.
        unsafe { A::free(self.start, self.bytes) }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    fn all(block: &[u8], wanted: u8) -> bool {
        block.iter().all(|&byte| byte == wanted)
    }

    /// Takes blocks of the sizes that are measured, dirties them, and has another thread free half.
    fn round<A: Allocator>() {
        for zeroed in [false, true] {
            for (bytes, count) in [(ALIGN, 64), (ALIGN << 9, 4)] {
                let mut blocks: Vec<_> =
                    (0..count).map(|_| Block::<A>::new(bytes, zeroed).unwrap()).collect();
                for (number, block) in (1..).zip(&mut blocks) {
                    assert!(block.as_ptr().addr().is_multiple_of(ALIGN));
                    assert!(!zeroed || all(block, 0), "not zeroed");
                    block.fill(number);
                }
                for (number, block) in (1..).zip(&blocks) {
                    assert!(all(block, number), "blocks overlap");
                }
                let half = blocks.split_off(count / 2);
                thread::scope(|scope| {
                    scope.spawn(move || drop(half));
                });
            }
        }
    }

    /// Goal: what is handed out is aligned, zero where that was asked for although it was dirty
    /// before, and nobody else's; and the two get along in one process.
    #[test]
    fn blocks_are_what_was_asked_for() {
        for _ in 0..3 {
            round::<Mimalloc>();
            round::<Jemalloc>();
        }
    }

    /// Goal: asking for nothing or too much is no way to a null pointer.
    #[test]
    fn odd_sizes_are_refused() {
        for bytes in [0, usize::MAX / 2] {
            assert!(Block::<Mimalloc>::new(bytes, false).is_none(), "{bytes}");
            assert!(Block::<Jemalloc>::new(bytes, false).is_none(), "{bytes}");
        }
    }
}
