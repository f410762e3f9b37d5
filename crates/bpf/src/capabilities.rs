//! The capabilities that loading needs, given up when all is loaded.

use rustix::io;
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

/// CAP_SYS_ADMIN includes the two others.
const OF_LOADING: CapabilitySet =
    CapabilitySet::BPF.union(CapabilitySet::PERFMON).union(CapabilitySet::SYS_ADMIN);

/// Gives up CAP_BPF, CAP_PERFMON and CAP_SYS_ADMIN of the calling thread, and of threads and
/// programs that it starts. `reads` tells whether maps can still be read: before Linux 5.19 a
/// kernel with `kernel.unprivileged_bpf_disabled` wants CAP_BPF for that, too. Then all are kept,
/// and the result is false.
///
/// # Errors
///
/// The kernel refuses the change.
pub fn drop_capabilities(reads: impl FnOnce() -> bool) -> io::Result<bool> {
    let before = capabilities(None)?;
    let effective = before.effective.difference(OF_LOADING);
    set_capabilities(None, CapabilitySets { effective, ..before })?;
    if !reads() {
        set_capabilities(None, before)?;
        return Ok(false);
    }
    let permitted = before.permitted.difference(OF_LOADING);
    let inheritable = before.inheritable.difference(OF_LOADING);
    set_capabilities(None, CapabilitySets { effective, permitted, inheritable })?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// Goal: what loading needs is gone for good, and everything else is still there. The thread
    /// of its own keeps other tests' capabilities.
    #[test]
    fn only_the_capabilities_of_loading_go() {
        let dropped = thread::spawn(|| {
            let before = capabilities(None).unwrap();
            assert!(drop_capabilities(|| true).unwrap());
            (before, capabilities(None).unwrap())
        });
        let (before, after) = dropped.join().unwrap();
        assert_eq!(after.effective, before.effective.difference(OF_LOADING));
        assert_eq!(after.permitted, before.permitted.difference(OF_LOADING));
    }

    /// Goal: where maps could not be read without them, nothing is given up.
    #[test]
    fn capabilities_that_reading_needs_are_kept() {
        let kept = thread::spawn(|| {
            let before = capabilities(None).unwrap();
            let without = || capabilities(None).unwrap().effective.intersects(OF_LOADING);
            assert!(!drop_capabilities(without).unwrap());
            (before, capabilities(None).unwrap())
        });
        let (before, after) = kept.join().unwrap();
        assert_eq!(after, before);
    }
}
