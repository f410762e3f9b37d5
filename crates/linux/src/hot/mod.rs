//! Finds the hot memory of a running process, as the kernel sees it.
//!
//! There are two sources: [`damon`] samples which parts are accessed at all, [`soft_dirty`] finds
//! exactly the pages that are written. Neither knows which CPU or node accesses them.

pub mod damon;
pub mod soft_dirty;

use std::thread;
use std::time::{Duration, Instant};

use nodeward_machine::{Error, Liveness, Process, Result};
use nodeward_model::Range;

/// The interval at which a wait polls for its end.
const STOP_POLL_INTERVAL: Duration = Duration::from_millis(20);

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
pub(crate) struct Unavailability {
    /// The obstacle.
    pub reason: String,
    /// The remedy.
    pub fix: String,
    /// True if a privilege is missing.
    pub is_denied: bool,
}

impl Unavailability {
    pub(crate) fn missing(why: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { reason: why.into(), fix: fix.into(), is_denied: false }
    }

    pub(crate) fn denied(why: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { reason: why.into(), fix: fix.into(), is_denied: true }
    }

    pub(crate) fn error(self, what: &'static str) -> Error {
        match self.is_denied {
            true => Error::Denied { action: what.to_owned(), remedy: self.fix },
            false => Error::Unsupported {
                action: what,
                reason: format!("{}; {}", self.reason, self.fix),
            },
        }
    }
}

/// Checks that a process still runs the program that was held: then everything opened or read by
/// its pid so far belongs to it.
fn check_running(process: &dyn Process) -> Result<()> {
    match process.liveness() {
        Liveness::Running => Ok(()),
        Liveness::Exited | Liveness::Replaced => Err(Error::Gone(process.pid())),
    }
}

/// Waits until a time, or until told to stop. Returns whether it was told.
///
/// # Errors
/// `Gone` as soon as the process has exited.
fn wait(until: Instant, process: &dyn Process, stop: &dyn Fn() -> bool) -> Result<bool> {
    loop {
        check_running(process)?;
        let left = until.saturating_duration_since(Instant::now());
        let is_told = stop();
        if is_told || left.is_zero() {
            return Ok(is_told);
        }
        thread::sleep(left.min(STOP_POLL_INTERVAL));
    }
}
