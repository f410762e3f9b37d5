//! Finds out by trying what works on this machine, for `nodeward doctor`.

mod calls;
mod surroundings;

use std::path::Path;

use crate::advice::Situation;

/// The importance of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Without it no page can be moved.
    Needed,
    /// With it more pages are moved, or faster.
    Helps,
    /// Another part of this machine that helps or hinders moves.
    Around,
}

/// The result of a check. Sentences are fragments without a full stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It works, or is as it should be.
    Works(String),
    /// It does not work here.
    Missing {
        /// The observation.
        why: String,
        /// The one change that makes it work.
        fix: String,
    },
    /// It is present and works against moves.
    Hinders {
        /// The observation.
        why: String,
        /// The one change that ends it.
        fix: String,
    },
    /// The check found no answer.
    Unknown {
        /// The reason.
        why: String,
    },
}

impl State {
    /// Returns the name in output and JSON.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Works(_) => "ok",
            Self::Missing { .. } => "missing",
            Self::Hinders { .. } => "hinders",
            Self::Unknown { .. } => "unknown",
        }
    }

    /// Returns the observation.
    pub fn seen(&self) -> &str {
        match self {
            Self::Works(seen) => seen,
            Self::Missing { why, .. } | Self::Hinders { why, .. } | Self::Unknown { why } => why,
        }
    }

    /// Returns the remedy, if there is one.
    pub fn fix(&self) -> Option<&str> {
        match self {
            Self::Works(_) | Self::Unknown { .. } => None,
            Self::Missing { fix, .. } | Self::Hinders { fix, .. } => Some(fix),
        }
    }

    fn works(seen: impl Into<String>) -> Self {
        Self::Works(seen.into())
    }

    fn missing(why: impl Into<String>, fix: impl Into<String>) -> Self {
        Self::Missing { why: why.into(), fix: fix.into() }
    }

    fn hinders(why: impl Into<String>, fix: impl Into<String>) -> Self {
        Self::Hinders { why: why.into(), fix: fix.into() }
    }

    fn unknown(why: impl Into<String>) -> Self {
        Self::Unknown { why: why.into() }
    }
}

/// One check and its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The name of the check: short, with dashes.
    pub check: &'static str,
    /// The importance of the check.
    pub role: Role,
    /// The reason of its importance.
    pub matters: &'static str,
    /// The result.
    pub state: State,
}

/// Runs all checks, with files under `root` (normally `/`). The system calls are made in any case.
/// Changes nothing. Cost: some milliseconds.
pub fn examine(root: &Path) -> Vec<Finding> {
    let situation = Situation::find(root);
    let mut findings = calls::examine(root, &situation);
    findings.extend(surroundings::examine(root, &situation));
    findings
}

/// Returns true if everything that a move needs works.
pub fn can_move(findings: &[Finding]) -> bool {
    let needed = findings.iter().filter(|finding| finding.role == Role::Needed);
    needed.map(|finding| &finding.state).all(|state| matches!(state, State::Works(_)))
}
