//! Model check of the page pool's lock: the real `try_lock.rs` with the atomics and the cell of
//! loom. loom tries every interleaving and every value that a load may see, and panics where two
//! threads access the cell without an ordering between them.

#[allow(unsafe_code, reason = "the real file, from the room where it is allowed")]
#[path = "../src/sys/try_lock.rs"]
mod try_lock;

/// The atomics of `try_lock.rs`.
mod sync {
    use std::cell::Cell;

    pub use loom::cell::UnsafeCell;
    pub use loom::hint::spin_loop;
    pub use loom::sync::atomic::Ordering;
    pub use loom::thread::yield_now;

    thread_local! {
        /// The orderings of swaps and of stores. Thread-locals: loom runs a model's threads on one
        /// thread.
        pub static SWAP: Cell<Ordering> = const { Cell::new(Ordering::Acquire) };
        pub static STORE: Cell<Ordering> = const { Cell::new(Ordering::Release) };
    }

    /// Always false: the model reports errors by a panic, which must not abort.
    pub fn panicking() -> bool {
        false
    }

    /// loom's atomic, whose orderings can be made too weak.
    ///
    /// A swap is done as a comparison, which does not rewrite the value that is there: loom lets a
    /// store come between the two halves of a swap (its issue 254), and finds the lock taken by no
    /// thread.
    pub struct AtomicBool(loom::sync::atomic::AtomicBool);

    impl AtomicBool {
        pub fn new(value: bool) -> Self {
            Self(loom::sync::atomic::AtomicBool::new(value))
        }

        pub fn swap(&self, value: bool, order: Ordering) -> bool {
            assert_eq!(order, Ordering::Acquire);
            let found = self.0.compare_exchange(!value, value, SWAP.get(), Ordering::Relaxed);
            found.unwrap_or_else(|found| found)
        }

        pub fn load(&self, order: Ordering) -> bool {
            self.0.load(order)
        }

        pub fn store(&self, value: bool, order: Ordering) {
            assert_eq!(order, Ordering::Release);
            self.0.store(value, STORE.get());
        }
    }
}

use loom::sync::Arc;
use loom::thread;
use sync::{Ordering, STORE, SWAP};
use try_lock::TryLock;

/// Two halves that are equal whenever the lock is free.
type Halves = (u32, u32);

fn add(halves: &mut Halves) {
    assert_eq!(halves.0, halves.1, "somebody else is at it");
    halves.0 += 1;
    thread::yield_now();
    halves.1 += 1;
}

/// Runs two threads, of which one waits for the lock and the other only tries, and a check
/// afterwards.
fn two_threads() {
    let lock = Arc::new(TryLock::new((0, 0)));
    let other = thread::spawn({
        let lock = Arc::clone(&lock);
        move || lock.try_lock().map(|mut halves| add(&mut halves)).is_some()
    });
    add(&mut lock.lock());
    let both = other.join().unwrap();
    let added = 1 + u32::from(both);
    assert_eq!(*lock.try_lock().expect("given back"), (added, added), "an addition was lost");
}

/// Goal: one holder at a time, each sees what the last one wrote, and the lock is released.
#[test]
fn holders_exclude_and_see_each_other() {
    loom::model(two_threads);
}

/// Goal: two waiting threads both get the lock. A third would take minutes.
#[test]
fn who_waits_gets_it() {
    loom::model(|| {
        let lock = Arc::new(TryLock::new((0, 0)));
        let other = thread::spawn({
            let lock = Arc::clone(&lock);
            move || add(&mut lock.lock())
        });
        add(&mut lock.lock());
        other.join().unwrap();
        assert_eq!(*lock.lock(), (2, 2));
    });
}

/// Goal: the model can fail: with a relaxed store as release, the next holder may not see what was
/// written.
#[test]
#[should_panic(expected = "Causality violation")]
fn a_relaxed_unlock_is_found() {
    STORE.set(Ordering::Relaxed);
    loom::model(two_threads);
}

/// Goal: the model can fail: so does a relaxed swap.
#[test]
#[should_panic(expected = "Causality violation")]
fn a_relaxed_lock_is_found() {
    SWAP.set(Ordering::Relaxed);
    loom::model(two_threads);
}
