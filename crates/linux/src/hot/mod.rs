//! Finds the hot memory of a running process, as the kernel sees it.
//!
//! There are two sources: [`damon`] samples which parts are accessed at all, [`written`] finds
//! exactly the pages that are written. Neither knows which CPU or node accesses them.

pub mod damon;
pub mod written;

use std::thread;
use std::time::{Duration, Instant};

use nodeward_machine::{Error, Life, Process, Result};
use nodeward_model::Range;

/// The interval at which a wait polls for its end.
const GLANCE: Duration = Duration::from_millis(20);

/// A part of a process's memory that was accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionAccess {
    /// The part, in whole pages.
    pub range: Range,
    /// The samples in which it was accessed; above zero, at most `samples`.
    pub accesses: u64,
    /// The samples that were taken of it.
    pub samples: u64,
}

/// The reason why a source cannot be used, as two fragments without a full stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Obstacle {
    /// The obstacle.
    pub why: String,
    /// The remedy.
    pub fix: String,
    /// True if a privilege is missing.
    pub is_denied: bool,
}

impl Obstacle {
    fn missing(why: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { why: why.into(), fix: fix.into(), is_denied: false }
    }

    fn denied(why: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { why: why.into(), fix: fix.into(), is_denied: true }
    }

    fn error(self, what: &'static str) -> Error {
        match self.is_denied {
            true => Error::Denied { what: what.to_owned(), need: self.fix },
            false => Error::Unsupported { what, why: format!("{}; {}", self.why, self.fix) },
        }
    }
}

/// Checks that a process still runs the program that was held: then everything opened or read by
/// its pid so far belongs to it.
fn still_there(process: &dyn Process) -> Result<()> {
    match process.life() {
        Life::Running => Ok(()),
        Life::Exited | Life::Replaced => Err(Error::Gone(process.pid())),
    }
}

/// Waits until a time, or until told to stop. Returns whether it was told.
///
/// # Errors
/// `Gone` as soon as the process has exited.
fn wait(until: Instant, process: &dyn Process, stop: &dyn Fn() -> bool) -> Result<bool> {
    loop {
        still_there(process)?;
        let left = until.saturating_duration_since(Instant::now());
        let is_told = stop();
        if is_told || left.is_zero() {
            return Ok(is_told);
        }
        thread::sleep(left.min(GLANCE));
    }
}
