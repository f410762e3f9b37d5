//! Threads that run no signal handler.

use std::io;
use std::mem::MaybeUninit;

/// Blocks all signals for the calling thread. A handler of the program could touch a page that only
/// this thread brings back.
pub fn block_signals() -> io::Result<()> {
    let mut all = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: writes one sigset_t into the place we own.
    unsafe { libc::sigfillset(all.as_mut_ptr()) };
    // SAFETY: reads the set that was filled in; with a null pointer the old one is not stored.
    let error =
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), std::ptr::null_mut()) };
    if error == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(error)) }
}
