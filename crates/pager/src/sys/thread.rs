//! Threads that run no signal handler, and threads of the program that nothing may interrupt.

use std::io;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// Blocks all signals for the calling thread, because a handler of the program could touch a page
/// that only this thread brings back.
pub fn block_signals() -> io::Result<()> {
    let mut all = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: writes one sigset_t into the place we own.
    unsafe { libc::sigfillset(all.as_mut_ptr()) };
    // SAFETY: reads the set that was filled in; with a null pointer the old one is not stored.
    let error =
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), std::ptr::null_mut()) };
    if error == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(error)) }
}

/// Blocks the signals of this thread until it is dropped.
#[must_use = "signals are let in at once"]
pub struct BlockedSignals {
    before: libc::sigset_t,
    /// Neither `Send` nor `Sync`.
    not_send: PhantomData<*const ()>,
}

/// Blocks the signals of the calling thread while it holds a lock that the thread behind page
/// faults takes: a handler that interrupts it may touch a page that is out of sight.
pub fn block_signals_in_scope() -> BlockedSignals {
    let (mut all, mut before) =
        (MaybeUninit::<libc::sigset_t>::zeroed(), MaybeUninit::<libc::sigset_t>::zeroed());
    // SAFETY: writes one sigset_t into the place we own.
    unsafe { libc::sigfillset(all.as_mut_ptr()) };
    // SAFETY: reads the set that was filled in, and writes the old one into the place we own.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr()) };
    // SAFETY: every bit pattern is a signal set; zeros are the empty one.
    let before = unsafe { before.assume_init() };
    BlockedSignals { before, not_send: PhantomData }
}

impl Drop for BlockedSignals {
    fn drop(&mut self) {
        // SAFETY: reads the set that we own; with a null pointer the old one is not stored.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, std::ptr::null_mut()) };
    }
}

/// A state of pthread_setcancelstate(3), of glibc and of musl; the crate libc does not have it.
const CANCEL_DISABLE: libc::c_int = 1;

unsafe extern "C" {
    fn pthread_setcancelstate(state: libc::c_int, old: *mut libc::c_int) -> libc::c_int;
}

/// The calling thread, as long as it runs no signal handler and cannot be cancelled.
#[must_use = "the thread is let go at once"]
pub struct HeldThread {
    cancel_state: libc::c_int,
    _signals: BlockedSignals,
}

/// Keeps signal handlers and pthread_cancel(3) away from the calling thread while it holds pages
/// that only it brings back: a handler could touch one, and a cancelled thread would leave them.
pub fn hold_thread() -> HeldThread {
    let signals = block_signals_in_scope();
    let mut before = 0;
    // SAFETY: stores the old state in the place we own; the state is a valid one, so it succeeds.
    unsafe { pthread_setcancelstate(CANCEL_DISABLE, &raw mut before) };
    HeldThread { cancel_state: before, _signals: signals }
}

impl Drop for HeldThread {
    fn drop(&mut self) {
        let mut now = 0;
        // SAFETY: restores the state that `hold_thread` found, and stores the other one in the
        // place we own.
        unsafe { pthread_setcancelstate(self.cancel_state, &raw mut now) };
    }
}
