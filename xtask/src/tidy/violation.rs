//! A place that breaks a rule of the house, and what to do about it.

use std::fmt;
use std::path::{Path, PathBuf};

/// A violation of a rule, with the remedy.
#[derive(Clone, Debug, PartialEq)]
pub struct Violation {
    path: PathBuf,
    /// Counted from one; zero for the whole file.
    line: usize,
    advice: String,
}

impl Violation {
    /// Creates a violation in a file of the repository.
    pub fn new(path: &Path, line: usize, advice: impl Into<String>) -> Violation {
        Violation { path: path.to_path_buf(), line, advice: advice.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path.display(), self.advice),
            line => write!(f, "{}:{line}: {}", self.path.display(), self.advice),
        }
    }
}
