//! Children of fork(2): they have neither a pool's memory nor its threads.
//!
//! A look at a counter tells a child from its parent; getpid(2) would cost more than a run. A child
//! that clone(2) makes without the C library is not noticed here. It does not have the memory, so
//! whatever it allocates cannot be touched.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::{Result, system};
use crate::sys::on_fork;

/// How many fork(2) lie between this process and the program's start.
static CHILDREN: AtomicU32 = AtomicU32::new(0);

/// Has forks counted from now on.
pub fn count() -> Result<()> {
    static COUNTED: OnceLock<()> = OnceLock::new();
    if COUNTED.get().is_none() {
        on_fork(nothing, nothing, child).map_err(system("pthread_atfork"))?;
        COUNTED.get_or_init(|| ());
    }
    Ok(())
}

/// A number that children have another one of.
pub fn children() -> u32 {
    CHILDREN.load(Ordering::Relaxed)
}

extern "C" fn nothing() {}

extern "C" fn child() {
    CHILDREN.fetch_add(1, Ordering::Relaxed);
}
