//! Threads of the pager and of its pool: how they start, and how one that sleeps in poll(2) is told
//! to end.

use std::os::fd::OwnedFd;
use std::thread::{Builder, JoinHandle};

use rustix::pipe::{PipeFlags, pipe_with};

use crate::error::{Result, system};
use crate::sys::block_signals;

/// Starts a thread that runs no signal handler, and whose panic ends the process.
pub fn spawn_pager_thread(
    name: String,
    work: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>> {
    let guarded = move || {
        let _guard = AbortOnPanic;
        block_signals().expect("every thread may block signals");
        work();
    };
    Builder::new().name(name).spawn(guarded).map_err(system("starting a thread"))
}

struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("nodeward: a thread that holds pages failed; aborting, so that none is lost");
            std::process::abort();
        }
    }
}

/// The write end of the pipe, which ends the thread.
pub struct StopSignal(OwnedFd);

/// Makes the pipe: returns the end that the thread polls, readable once it is told to end, and the
/// other end.
pub fn stop_pipe() -> Result<(OwnedFd, StopSignal)> {
    let (stopped, stop) = pipe_with(PipeFlags::CLOEXEC).map_err(|e| system("pipe")(e.into()))?;
    Ok((stopped, StopSignal(stop)))
}

impl StopSignal {
    /// Tells the thread to end. Only for the process that made the pipe: a child of fork(2) has a
    /// copy, so closing our end would signal nothing as long as the child lives.
    pub fn send(self) {
        rustix::io::write(&self.0, &[0]).expect("an empty pipe has room for a byte");
    }
}
