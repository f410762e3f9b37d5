//! Tests of `try_lock.rs` with the atomics of std; the model uses that file without these tests.

use super::try_lock::TryLock;

/// Goal: a holder has the lock alone until the guard is dropped, and adjacent locks share no pair
/// of cache lines.
#[test]
fn one_at_a_time() {
    let lock = TryLock::new(1);
    let mut guard = lock.try_lock().unwrap();
    assert!(lock.try_lock().is_none());
    *guard += 1;
    drop(guard);
    assert_eq!(*lock.lock(), 2);
    assert_eq!(size_of::<[TryLock<u8>; 2]>(), 2 * 128);
}

/// Goal: no addition is lost between threads that wait for each other. 4 x 10 000 additions.
#[test]
fn threads_take_turns() {
    let lock = TryLock::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..10_000).for_each(|_| *lock.lock() += 1));
        }
    });
    assert_eq!(*lock.lock(), 40_000);
}

/// Goal: a lock that is taken and released while a thread unwinds for another reason is released,
/// and nothing aborts.
#[test]
fn unwinding_may_take_it() {
    struct Free<'a>(&'a TryLock<u32>);
    impl Drop for Free<'_> {
        fn drop(&mut self) {
            *self.0.lock() += 1;
        }
    }
    let lock = TryLock::new(0);
    let failed = std::panic::catch_unwind(|| {
        let _free = Free(&lock);
        std::panic::resume_unwind(Box::new("the program's own"));
    });
    assert!(failed.is_err());
    assert_eq!(*lock.try_lock().unwrap(), 1);
}

/// Goal: a panic with the lock aborts the process (SIGABRT). Runs in a process of its own.
#[test]
fn a_panic_with_the_lock_aborts() {
    use std::os::unix::process::ExitStatusExt;
    const HERE: &str = "NODEWARD_PANIC_WITH_LOCK";
    if std::env::var_os(HERE).is_some() {
        let lock = TryLock::new(0);
        let _guard = lock.lock();
        panic!("with the lock");
    }
    let mut again = std::process::Command::new(std::env::current_exe().unwrap());
    let ended = again
        .args(["a_panic_with_the_lock_aborts", "--nocapture"])
        .env(HERE, "1")
        .output()
        .unwrap();
    assert_eq!(ended.status.signal(), Some(libc::SIGABRT), "{ended:?}");
}
