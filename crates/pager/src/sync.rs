//! Locks as this crate uses them: a thread that panics while it holds one aborts the process (see
//! [`crate::lanes`]), so none is ever found poisoned.

pub use std::sync::{Condvar, Mutex, MutexGuard};

/// Takes a lock.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no thread panicked with this lock")
}
