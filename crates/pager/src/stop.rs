//! How a thread is told to end that sleeps in poll(2).

use std::os::fd::OwnedFd;

use rustix::pipe::{PipeFlags, pipe_with};

use crate::error::{Result, system};

/// The end of a pipe where the thread is told.
pub struct Stop(OwnedFd);

/// The end that the thread polls, which can be read once it is told, and the one where it is told.
pub fn pipe() -> Result<(OwnedFd, Stop)> {
    let (stopped, stop) = pipe_with(PipeFlags::CLOEXEC).map_err(|e| system("pipe")(e.into()))?;
    Ok((stopped, Stop(stop)))
}

impl Stop {
    /// Tells it. Only in the process that made the pipe: a child of fork(2) has it, too, so that
    /// closing our end would tell nothing as long as the child lives.
    pub fn tell(self) {
        rustix::io::write(&self.0, &[0]).expect("an empty pipe has room for a byte");
    }
}
