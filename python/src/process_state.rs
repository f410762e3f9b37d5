//! What a process has once: its pager, and its view of its own memory. They are opened when they
//! are first needed, and a child of fork(2) opens its own.
//!
//! The locks are taken and given back under the GIL. fork(2) of Python happens under it, too, so no
//! child finds a lock that nobody will give back.

use std::process;
use std::sync::{Arc, Mutex, PoisonError};

use nodeward::{OwnMemory, Pager, PagerOptions, Result};
use pyo3::Python;

/// A value, and the process that opened it.
type ProcessSlot<T> = Mutex<Option<(u32, T)>>;

/// Returns the pager of this process.
pub fn pager(_gil: Python<'_>) -> Result<Pager> {
    static PAGER: ProcessSlot<Pager> = Mutex::new(None);
    of_this_process(&PAGER, || Pager::open(&PagerOptions::default()))
}

/// Returns the memory of this process.
pub fn own_memory(_gil: Python<'_>) -> Result<Arc<OwnMemory>> {
    static OWN: ProcessSlot<Arc<OwnMemory>> = Mutex::new(None);
    of_this_process(&OWN, || OwnMemory::open().map(Arc::new))
}

fn of_this_process<T: Clone>(slot: &ProcessSlot<T>, open: impl FnOnce() -> Result<T>) -> Result<T> {
    let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
    match &*slot {
        Some((pid, opened)) if *pid == process::id() => Ok(opened.clone()),
        _ => {
            let opened = open()?;
            *slot = Some((process::id(), opened.clone()));
            Ok(opened)
        }
    }
}
