//! Prints results on standard output. An output that does not accept all of a result is an error
//! with a code of its own.

use std::io::{self, ErrorKind, Write};

use anyhow::Result;
use nodeward_model::name::sanitize_for_terminal;

/// Standard output did not accept the text.
#[derive(Debug, thiserror::Error)]
#[error("cannot write to standard output; make room there, or send it elsewhere")]
pub struct OutputError(#[from] io::Error);

impl OutputError {
    /// Returns whether it is a pipe without a reader.
    pub fn is_broken_pipe(&self) -> bool {
        self.0.kind() == ErrorKind::BrokenPipe
    }
}

/// Prints text on stdout, without anything that a terminal interprets.
///
/// # Errors
/// [`OutputError`] if some of it was not accepted.
pub fn print(text: &str) -> Result<()> {
    Ok(write_sanitized(io::stdout().lock(), text)?)
}

/// Prints a result on stdout, or on stderr if stdout does not accept it, so that it is not lost.
///
/// # Errors
/// As [`print`].
pub fn print_outcome(text: &str) -> Result<()> {
    print(text).inspect_err(|_| text.lines().for_each(|line| say!("{line}")))
}

fn write_sanitized(mut out: impl Write, text: &str) -> Result<(), OutputError> {
    Ok(out.write_all(sanitize_for_terminal(text).as_bytes()).and_then(|()| out.flush())?)
}
