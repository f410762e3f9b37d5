//! Ends a thread that sleeps in poll(2).

use std::os::fd::OwnedFd;

use rustix::pipe::{PipeFlags, pipe_with};

use crate::error::{Result, system};

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
