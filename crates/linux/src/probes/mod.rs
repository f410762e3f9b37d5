//! What works here and what does not, found by trying: for `nodeward doctor`.

mod calls;
mod surroundings;

use std::path::Path;

use crate::advice::Situation;

/// How much a check matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Nothing is moved without it.
    Needed,
    /// More pages are moved, or faster, with it.
    Helps,
    /// Something else on this machine that moves go along with or against.
    Around,
}

/// How a check ended. Sentences are fragments without a full stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It works, or is as it should be.
    Works(String),
    /// It does not work here.
    Missing {
        /// What was seen.
        why: String,
        /// The one thing that makes it work.
        fix: String,
    },
    /// It is there, and works against moves.
    Hinders {
        /// What was seen.
        why: String,
        /// The one thing that ends it.
        fix: String,
    },
    /// It could not be found out.
    Unknown {
        /// Why not.
        why: String,
    },
}

impl State {
    /// The name in output and JSON.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Works(_) => "ok",
            Self::Missing { .. } => "missing",
            Self::Hinders { .. } => "hinders",
            Self::Unknown { .. } => "unknown",
        }
    }

    /// What was seen.
    pub fn seen(&self) -> &str {
        match self {
            Self::Works(seen) => seen,
            Self::Missing { why, .. } | Self::Hinders { why, .. } | Self::Unknown { why } => why,
        }
    }

    /// What to do about it, if anything.
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

/// One check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What was checked: a short name with dashes.
    pub check: &'static str,
    /// How much it matters.
    pub role: Role,
    /// Why it matters.
    pub matters: &'static str,
    /// How it ended.
    pub state: State,
}

/// Checks everything, with files under `root` (normally `/`). The calls are made in any case.
/// Changes nothing. Cost: some milliseconds.
pub fn examine(root: &Path) -> Vec<Finding> {
    let situation = Situation::find(root);
    let mut findings = calls::examine(root, &situation);
    findings.extend(surroundings::examine(root, &situation));
    findings
}

/// Whether everything works that a move needs.
pub fn can_move(findings: &[Finding]) -> bool {
    let needed = findings.iter().filter(|finding| finding.role == Role::Needed);
    needed.map(|finding| &finding.state).all(|state| matches!(state, State::Works(_)))
}
