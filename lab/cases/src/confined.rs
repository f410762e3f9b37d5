//! Programs behind a seccomp filter, as in a container.

use std::collections::BTreeMap;

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

/// Does something on a thread on which these system calls, by their numbers, fail with EPERM, and
/// so do those of the programs that it starts.
pub fn without_calls<T: Send>(calls: &[i64], act: impl FnOnce() -> T + Send) -> T {
    const EPERM: u32 = 1;
    let calls: BTreeMap<_, _> = calls.iter().map(|call| (*call, Vec::new())).collect();
    let architecture = std::env::consts::ARCH.try_into().expect("an architecture with seccomp");
    let (allow, refuse) = (SeccompAction::Allow, SeccompAction::Errno(EPERM));
    let filter = SeccompFilter::new(calls, allow, refuse, architecture).expect("a filter");
    let program: BpfProgram = filter.try_into().expect("a program of the filter");
    std::thread::scope(|scope| {
        let confined = scope.spawn(move || {
            seccompiler::apply_filter(&program).expect("a filter can be set");
            act()
        });
        confined.join().expect("what runs behind the filter ends")
    })
}
