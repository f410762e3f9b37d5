//! The locks that this crate uses. A thread that panics while it holds one aborts the process (see
//! [`crate::pager_thread`]), so no lock is ever poisoned.
//!
//! Files that are model-checked take these names from here, and in the model from loom.

pub use std::hint::spin_loop;
pub use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering, fence};
pub use std::sync::{Condvar, Mutex, MutexGuard};
pub use std::thread::{panicking, yield_now};

/// Takes a lock.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no thread panicked with this lock")
}

/// std's cell with the interface of loom's, which records reads and writes.
pub struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

impl<T> UnsafeCell<T> {
    /// A cell with `content`.
    pub fn new(content: T) -> Self {
        Self(std::cell::UnsafeCell::new(content))
    }

    /// Calls `read` with the content.
    #[inline]
    pub fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
        read(self.0.get())
    }

    /// Calls `write` with the content.
    #[inline]
    pub fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        write(self.0.get())
    }
}
