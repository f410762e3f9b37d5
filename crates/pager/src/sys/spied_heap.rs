//! The allocator of a test that is told of each call. Not a part of the library.

use std::alloc::{GlobalAlloc, Layout, System};

/// The system's allocator; the function is called before it is.
pub struct SpiedHeap(pub fn());

// SAFETY: all is done by `System`, as it promises.
unsafe impl GlobalAlloc for SpiedHeap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        (self.0)();
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        (self.0)();
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        (self.0)();
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        (self.0)();
        // SAFETY: the caller's promise.
        unsafe { System.realloc(memory, layout, bytes) }
    }
}
