//! A lock for critical sections well under a microsecond with little contention: one swap takes it,
//! one store releases it. std's mutex needs two swaps, and under contention puts threads to sleep,
//! which costs more than all the work under this lock.
//!
//! Model-checked in `tests/try_lock_model.rs`, with the atomics of the model.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::panic::RefUnwindSafe;

use crate::sync::{AtomicBool, Ordering, UnsafeCell, panicking, spin_loop, yield_now};

/// Number of polls of [`TryLock::lock`] before it yields its CPU: 1 to 5 us, depending on how long
/// a CPU pause takes. A guess: longer than most critical sections, if the holder has a CPU.
const SPINS_BEFORE_YIELD: u32 = 100;

/// A value that one thread uses at a time.
///
/// Two cache lines wide, because CPUs fetch lines in pairs: adjacent locks, one for each CPU, must
/// not slow each other down (false sharing).
#[repr(align(128))]
pub struct TryLock<T> {
    is_locked: AtomicBool,
    content: UnsafeCell<T>,
}

// SAFETY: `taken` goes from false to true for one thread at a time, so only one accesses the
// content, as if it were sent from each to the next.
unsafe impl<T: Send> Sync for TryLock<T> {}

/// A panic with the lock aborts the process, so no thread sees a half-changed content.
impl<T> RefUnwindSafe for TryLock<T> {}

impl<T> TryLock<T> {
    /// An unlocked lock.
    pub fn new(content: T) -> Self {
        Self { is_locked: AtomicBool::new(false), content: UnsafeCell::new(content) }
    }

    /// Takes the lock, unless a thread holds it.
    #[inline]
    pub fn try_lock(&self) -> Option<TryLockGuard<'_, T>> {
        if self.is_locked.swap(true, Ordering::Acquire) {
            return None;
        }
        Some(TryLockGuard { lock: self, was_panicking: panicking(), not_send: PhantomData })
    }

    /// Takes the lock, waiting for it if needed. The lock is not fair: a later thread may get it
    /// earlier. A thread that holds it already waits for ever, as a signal handler does that
    /// interrupted the holder.
    #[inline]
    pub fn lock(&self) -> TryLockGuard<'_, T> {
        self.try_lock().unwrap_or_else(|| self.wait())
    }

    /// Terminates because holders neither sleep nor wait for this thread. A preempted holder gets
    /// its CPU back when we yield. A thread with a real-time policy, however, yields only to equal
    /// priorities: it waits until the kernel throttles it (0.95 s) or moves the holder.
    #[cold]
    fn wait(&self) -> TryLockGuard<'_, T> {
        loop {
            for _ in 0..SPINS_BEFORE_YIELD {
                // A failing swap would take the cache line away from the holder.
                if !self.is_locked.load(Ordering::Relaxed)
                    && let Some(guard) = self.try_lock()
                {
                    return guard;
                }
                spin_loop();
            }
            yield_now();
        }
    }
}

/// Holds the lock as long as it lives, for the thread that took it.
#[must_use = "the lock is given back at once"]
pub struct TryLockGuard<'a, T> {
    lock: &'a TryLock<T>,
    /// Set if the thread was unwinding already: dropping a page run then is no failure of ours.
    was_panicking: bool,
    /// Neither `Send` nor `Sync`.
    not_send: PhantomData<*const T>,
}

impl<T> Deref for TryLockGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this thread holds the lock, and nothing writes while `self` is borrowed.
        self.lock.content.with(|content| unsafe { &*content })
    }
}

impl<T> DerefMut for TryLockGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this thread holds the lock, and `self` is borrowed exclusively.
        self.lock.content.with_mut(|content| unsafe { &mut *content })
    }
}

impl<T> Drop for TryLockGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if panicking() && !self.was_panicking {
            abort();
        }
        self.lock.is_locked.store(false, Ordering::Release);
    }
}

/// Aborts: no thread may see a half-changed content, as with all locks of this crate.
#[cold]
fn abort() -> ! {
    eprintln!(
        "nodeward: a thread failed with a lock on free pages; aborting, so that none is lost"
    );
    std::process::abort();
}
