//! What a check is for, and what it found.

/// The importance of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Without it no page can be moved.
    Needed,
    /// With it more pages are moved, or faster.
    Helps,
    /// Another part of this machine that helps or hinders moves.
    Environment,
}

/// The result of a check. Sentences are fragments without a full stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckState {
    /// It works, or is as it should be.
    Works(String),
    /// It does not work here.
    Missing {
        /// The observation.
        reason: String,
        /// The one change that makes it work.
        fix: String,
    },
    /// It is present and works against moves.
    Hinders {
        /// The observation.
        reason: String,
        /// The one change that ends it.
        fix: String,
    },
    /// The check found no answer.
    Unknown {
        /// The reason.
        reason: String,
    },
}

impl CheckState {
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
    pub fn observation(&self) -> &str {
        match self {
            Self::Works(seen) => seen,
            Self::Missing { reason: why, .. }
            | Self::Hinders { reason: why, .. }
            | Self::Unknown { reason: why } => why,
        }
    }

    /// Returns the remedy, if there is one.
    pub fn fix(&self) -> Option<&str> {
        match self {
            Self::Works(_) | Self::Unknown { .. } => None,
            Self::Missing { fix, .. } | Self::Hinders { fix, .. } => Some(fix),
        }
    }

    pub(super) fn works(seen: impl Into<String>) -> Self {
        Self::Works(seen.into())
    }

    pub(super) fn missing(why: impl Into<String>, fix: impl Into<String>) -> Self {
        Self::Missing { reason: why.into(), fix: fix.into() }
    }

    pub(super) fn hinders(why: impl Into<String>, fix: impl Into<String>) -> Self {
        Self::Hinders { reason: why.into(), fix: fix.into() }
    }

    pub(super) fn unknown(why: impl Into<String>) -> Self {
        Self::Unknown { reason: why.into() }
    }
}

/// One check and its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckResult {
    /// The name of the check: short, with dashes.
    pub check: &'static str,
    /// The importance of the check.
    pub role: Role,
    /// The reason of its importance.
    pub relevance: &'static str,
    /// The result.
    pub state: CheckState,
}
