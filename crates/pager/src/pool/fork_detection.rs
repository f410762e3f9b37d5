//! Detection of children of fork(2), which have neither a pool's memory nor its threads.
//!
//! Reading a counter tells a child from its parent; getpid(2) would cost more than an allocation. A
//! child that is made by clone(2) without the C library is not detected. It does not have the
//! memory, so whatever it allocates cannot be touched.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::{Result, system};
use crate::sys::on_fork;

/// Number of fork(2) generations between the program's start and this process.
static FORK_DEPTH: AtomicU32 = AtomicU32::new(0);

/// Starts counting forks.
pub fn watch_forks() -> Result<()> {
    static COUNTED: OnceLock<()> = OnceLock::new();
    if COUNTED.get().is_none() {
        on_fork(nothing, nothing, child).map_err(system("pthread_atfork"))?;
        COUNTED.get_or_init(|| ());
    }
    Ok(())
}

/// Returns a number that differs between a process and its children.
pub fn fork_depth() -> u32 {
    FORK_DEPTH.load(Ordering::Relaxed)
}

extern "C" fn nothing() {}

extern "C" fn child() {
    FORK_DEPTH.fetch_add(1, Ordering::Relaxed);
}
