//! Signals that are held back from the calling thread, by pthread_sigmask(3), and one that all
//! threads may ignore.

use std::io;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// Blocks all signals for the calling thread until it ends.
///
/// # Errors
/// Those of pthread_sigmask(3).
pub fn block_signals() -> io::Result<()> {
    let mut all = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: writes one sigset_t into the place we own.
    unsafe { libc::sigfillset(all.as_mut_ptr()) };
    // SAFETY: reads the set that was filled in; with a null pointer the old one is not stored.
    let error =
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), std::ptr::null_mut()) };
    if error == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(error)) }
}

/// Returns whether this process ignores SIGHUP, as nohup(1) starts it.
pub fn is_hangup_ignored() -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: with a null pointer nothing is set; writes the present action into the place we own.
    let error = unsafe { libc::sigaction(libc::SIGHUP, std::ptr::null(), action.as_mut_ptr()) };
    // SAFETY: zeros are a valid action, and so is what the kernel wrote.
    error == 0 && unsafe { action.assume_init() }.sa_sigaction == libc::SIG_IGN
}

/// Blocks the signals of this thread until it is dropped. Those that came meanwhile are taken then.
#[must_use = "signals are let in at once"]
pub struct BlockedSignals {
    before: libc::sigset_t,
    /// Neither `Send` nor `Sync`.
    not_send: PhantomData<*const ()>,
}

/// Blocks all signals of the calling thread for as long as the result lives.
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
