//! Memory that does not come from the program's allocator.

use std::alloc::Layout;
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// Like a `Box<[T]>`, but in a mapping of its own: making one never waits for a lock of the
/// program's allocator.
pub struct MmapSlice<T>(NonNull<[T]>);

// SAFETY: it owns what it points to, as a box does.
unsafe impl<T: Send> Send for MmapSlice<T> {}

impl<T: Default> MmapSlice<T> {
    /// A row of `count` (at least one) default values.
    pub fn of(count: usize) -> Self {
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        let bytes = bytes::<T>(count);
        // SAFETY: without MAP_FIXED the kernel chooses addresses that nothing uses.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), bytes, access, flags) };
        let start = start.expect("the kernel has room for a small table").cast::<T>();
        for index in 0..count {
            // SAFETY: the mapping has room for `count` values.
            let place = unsafe { start.add(index) };
            // SAFETY: the place is aligned, as pages are, writable, and holds nothing yet.
            unsafe { place.write(T::default()) };
        }
        let all = ptr::slice_from_raw_parts_mut(start, count);
        Self(NonNull::new(all).expect("nothing is mapped at zero"))
    }
}

fn bytes<T>(count: usize) -> usize {
    Layout::array::<T>(count).expect("a small table").size()
}

impl<T> Deref for MmapSlice<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: `of` wrote all values, and they are accessible only through `self`.
        unsafe { self.0.as_ref() }
    }
}

impl<T> DerefMut for MmapSlice<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`, and the borrow is exclusive.
        unsafe { self.0.as_mut() }
    }
}

impl<T> Drop for MmapSlice<T> {
    fn drop(&mut self) {
        let bytes = bytes::<T>(self.len());
        // SAFETY: `of` wrote all values, and no reference to them is left.
        unsafe { self.0.drop_in_place() };
        // SAFETY: `of` made this mapping, of this size. On failure it stays mapped.
        let _ = unsafe { munmap(self.0.as_ptr().cast(), bytes) };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// Goal: entries hold what is written to them, and are dropped with the row.
    #[test]
    fn it_is_as_a_box() {
        let mut row = MmapSlice::<Option<Arc<u8>>>::of(1000);
        assert!(row.len() == 1000 && row.iter().all(Option::is_none));
        let seven = Arc::new(7);
        row[999] = Some(Arc::clone(&seven));
        assert_eq!((row[999].as_deref(), Arc::strong_count(&seven)), (Some(&7), 2));
        drop(row);
        assert_eq!(Arc::strong_count(&seven), 1);
    }
}
