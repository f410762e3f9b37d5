//! Results as text and as JSON.

pub mod balance;
pub mod bench;
pub mod config;
pub mod doctor;
pub mod explain;
pub mod files;
pub mod hot;
pub mod ledger;
pub mod moves;
mod plot;
pub mod ranking;
pub mod reproduce;
pub mod residency;
pub mod shared_memory;
pub mod sim;
pub mod simulated;
pub mod swarm;
pub mod topology;

use std::io::{self, ErrorKind, Write};

use anyhow::Result;
use nodeward_model::Name;
use nodeward_model::name::sanitize_for_terminal;
use serde_json::{Value, json};

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

/// Adds a name, or a path, to an object: as text, and as bytes too if it is not UTF-8.
fn put_name(object: &mut Value, key: &str, name: &Name) {
    object[key] = json!(name);
    if !name.is_text() {
        object[format!("{key}_bytes")] = json!(name.as_bytes());
    }
}
