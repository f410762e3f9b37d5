//! Where the memory of a running process is hot, as the kernel sees it.
//!
//! Two sources: [`damon`] samples which parts are accessed at all, [`written`] tells exactly which
//! pages are written. Neither knows which CPU or node accesses.

pub mod damon;
pub mod written;

use std::thread;
use std::time::{Duration, Instant};

use nodeward_machine::{Error, Life, Process, Result};
use nodeward_model::Range;

/// How often a wait looks whether it shall end.
const GLANCE: Duration = Duration::from_millis(20);

/// A part of a process's memory in which accesses were seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionAccess {
    /// The part: whole pages.
    pub range: Range,
    /// In how many of the samples it was accessed; above zero, at most `samples`.
    pub accesses: u64,
    /// How often it was looked at.
    pub samples: u64,
}

/// Why a source cannot be used here, as two fragments without a full stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Obstacle {
    /// What is in the way.
    pub why: String,
    /// What to do about it.
    pub fix: String,
    /// Whether it is a missing privilege.
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

/// That a process still runs what was held: what was opened or read by its pid until now was its.
fn still_there(process: &dyn Process) -> Result<()> {
    match process.life() {
        Life::Running => Ok(()),
        Life::Exited | Life::Replaced => Err(Error::Gone(process.pid())),
    }
}

/// Waits until a time, or until told to stop; whether it was told.
///
/// # Errors
/// `Gone` as soon as the process is.
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
