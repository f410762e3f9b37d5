//! At most one balancer in a process: two would move the same memory against each other.

use std::process;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

/// The process that has a balancer; 0 if none has. A child of fork(2) reads its parent's number.
static OWNER: AtomicU32 = AtomicU32::new(0);

/// The right to be the balancer of this process, until it is dropped.
#[derive(Debug)]
pub struct OneEach(u32);

impl OneEach {
    /// Takes the right; `None` if this process has a balancer.
    pub fn take() -> Option<Self> {
        let own = process::id();
        let take = |owner: u32| (owner != own).then_some(own);
        OWNER.fetch_update(Relaxed, Relaxed, take).ok().map(|_| Self(own))
    }
}

impl Drop for OneEach {
    fn drop(&mut self) {
        // A child's copy returns nothing: the child may have a balancer of its own.
        if self.0 == process::id() {
            OWNER.store(0, Relaxed);
        }
    }
}
