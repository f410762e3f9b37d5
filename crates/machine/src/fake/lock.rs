//! Locks of the fake machine. A test that panicked while it held one does not fail the others.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Takes a lock.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
