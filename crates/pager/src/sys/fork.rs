//! pthread_atfork(3).

use std::io;

/// Registers `before` to be called in the parent before each fork(2), and `parent` and `child`
/// after it in the respective process. All run on the forking thread. They stay registered for
/// good.
pub fn on_fork(
    before: extern "C" fn(),
    parent: extern "C" fn(),
    child: extern "C" fn(),
) -> io::Result<()> {
    // SAFETY: the functions live as long as the program and are safe to call at any time.
    let error = unsafe { libc::pthread_atfork(Some(before), Some(parent), Some(child)) };
    if error == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(error)) }
}
