//! Threads of the program that nothing may interrupt.

use nodeward_linux::signal_mask::{BlockedSignals, block_signals_in_scope};

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
