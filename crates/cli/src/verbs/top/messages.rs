//! Messages of this program while the screen is shown: they would be written over it, so they are
//! kept, shown in its last line, and written to standard error afterwards.

use std::collections::VecDeque;
use std::io::{self, IsTerminal as _, PipeReader, Read as _};
use std::os::fd::OwnedFd;

use anyhow::{Context as _, Result};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::stdio::dup2_stderr;

/// So many are kept.
const KEPT: usize = 100;

/// Takes messages until it is dropped.
pub struct MessageCatcher {
    /// Readable when there are messages.
    pub pipe: PipeReader,
    before: OwnedFd,
    rest: Vec<u8>,
    kept: VecDeque<String>,
}

impl MessageCatcher {
    /// Takes messages that would go to the terminal from now on; `None` if they go elsewhere.
    ///
    /// # Errors
    /// If there is no room for a pipe.
    pub fn start() -> Result<Option<Self>> {
        if !io::stderr().is_terminal() {
            return Ok(None);
        }
        let before = rustix::io::dup(io::stderr()).context("cannot keep standard error")?;
        let (pipe, writer) = io::pipe().context("cannot make a pipe")?;
        // Who writes more than a pipe holds loses that, and does not wait for the screen.
        fcntl_setfl(&pipe, OFlags::NONBLOCK)?;
        fcntl_setfl(&writer, OFlags::NONBLOCK)?;
        dup2_stderr(&writer).context("cannot replace standard error")?;
        Ok(Some(Self { pipe, before, rest: Vec::new(), kept: VecDeque::new() }))
    }

    /// Returns the lines that came.
    pub fn take(&mut self) -> Vec<String> {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = self.pipe.read(&mut bytes) {
            self.rest.extend_from_slice(&bytes[..count]);
        }
        let mut lines = Vec::new();
        while let Some(end) = self.rest.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            // They are text: `say!` escapes what is not.
            lines.extend(String::from_utf8(line).map(|line| line.trim_end().to_owned()));
        }
        self.kept.extend(lines.iter().cloned());
        let excess = self.kept.len().saturating_sub(KEPT);
        self.kept.drain(..excess);
        lines
    }
}

impl Drop for MessageCatcher {
    fn drop(&mut self) {
        self.take();
        // Where standard error cannot be put back, there is none to tell that.
        let _ = dup2_stderr(&self.before);
        self.kept.iter().for_each(|line| say!("{line}"));
    }
}
