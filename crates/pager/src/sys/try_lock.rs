//! A lock for what is held for well under a microsecond, mostly without anybody else who wants it:
//! one swap takes it, one store gives it back. std's mutex needs two swaps, and one that is
//! contended puts threads to sleep, which costs more than all that is done under this one.
//!
//! Model-checked in `tests/try_lock_model.rs`, with the atomics of the model.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::panic::RefUnwindSafe;

use crate::sync::{AtomicBool, Ordering, UnsafeCell, panicking, spin_loop, yield_now};

/// So often [`TryLock::lock`] looks again before it gives its CPU away: 1 to 5 us, by how long a
/// pause of the CPU takes. A guess: longer than most holders need, if they have a CPU.
const LOOKS: u32 = 100;

/// Something that one thread uses at a time.
///
/// Two cache lines wide, because CPUs fetch lines in pairs: locks side by side, one for each CPU,
/// must not slow each other down.
#[repr(align(128))]
pub struct TryLock<T> {
    taken: AtomicBool,
    content: UnsafeCell<T>,
}

// SAFETY: `taken` goes from false to true for one thread at a time, so only one reaches the
// content: as if it were sent from each to the next.
unsafe impl<T: Send> Sync for TryLock<T> {}

/// A panic with the lock ends the process, so nobody sees what it left.
impl<T> RefUnwindSafe for TryLock<T> {}

impl<T> TryLock<T> {
    /// A lock that nobody holds.
    pub fn new(content: T) -> Self {
        Self { taken: AtomicBool::new(false), content: UnsafeCell::new(content) }
    }

    /// Takes the lock, unless somebody has it.
    #[inline]
    pub fn try_lock(&self) -> Option<Guard<'_, T>> {
        if self.taken.swap(true, Ordering::Acquire) {
            return None;
        }
        Some(Guard { lock: self, was_panicking: panicking(), stays: PhantomData })
    }

    /// Takes the lock, and waits for it if need be. Nobody stands in line: who comes later may
    /// have it earlier. Who has it already, as the thread that a signal handler interrupted may,
    /// waits for ever.
    #[inline]
    pub fn lock(&self) -> Guard<'_, T> {
        self.try_lock().unwrap_or_else(|| self.wait())
    }

    /// Ends because holders neither sleep nor wait for us. One that lost its CPU gets it back when
    /// we yield, but not from a thread with a real-time policy, which yields to its equals only:
    /// that waits until the kernel throttles it (0.95 s) or moves the holder.
    #[cold]
    fn wait(&self) -> Guard<'_, T> {
        loop {
            for _ in 0..LOOKS {
                // A swap that fails would take the cache line away from the holder.
                if !self.taken.load(Ordering::Relaxed)
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

/// The lock is held as long as this lives, by the thread that took it.
#[must_use = "the lock is given back at once"]
pub struct Guard<'a, T> {
    lock: &'a TryLock<T>,
    /// Dropping a page run while a thread of the program unwinds is no failure of ours.
    was_panicking: bool,
    /// Neither `Send` nor `Sync`.
    stays: PhantomData<*const T>,
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: we hold the lock, and nobody writes while `self` is borrowed.
        self.lock.content.with(|content| unsafe { &*content })
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: we hold the lock, and `self` is borrowed for the caller alone.
        self.lock.content.with_mut(|content| unsafe { &mut *content })
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if panicking() && !self.was_panicking {
            abort();
        }
        self.lock.taken.store(false, Ordering::Release);
    }
}

/// What was changed by half nobody may see, as with all locks of this crate.
#[cold]
fn abort() -> ! {
    eprintln!(
        "nodeward: a thread failed with a lock on free pages; aborting, so that none is lost"
    );
    std::process::abort();
}
