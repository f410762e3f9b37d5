//! Errors of unusable scenarios: the place, what is wrong, and what was expected.

use std::fmt;

/// Maximum number of characters in a part of a message.
const LETTERS_MAX: usize = 500;

/// The error of a scenario that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name}{location}: {problem}; expected {expected}")]
pub struct Error {
    /// The file's path, or the scenario's name.
    pub name: String,
    /// The place in it.
    pub location: ErrorLocation,
    /// What is wrong.
    pub problem: String,
    /// What would be right.
    pub expected: String,
}

/// The place of an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ErrorLocation {
    /// The file as a whole.
    File,
    /// A line, counted from 1.
    Line(u32),
    /// An override, `key=value`.
    Override(String),
    /// A value of a scenario that was not read from a text, such as `node[1].cpus`.
    Value(String),
}

impl fmt::Display for ErrorLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File => Ok(()),
            Self::Line(line) => write!(f, ":{line}"),
            Self::Override(set) => write!(f, ": --set {set}"),
            Self::Value(value) => write!(f, ": {value}"),
        }
    }
}

impl Error {
    /// Returns the line of the file, counted from 1.
    pub fn line(&self) -> Option<u32> {
        match self.location {
            ErrorLocation::Line(line) => Some(line),
            _ => None,
        }
    }
}

/// An error that does not know its file yet.
#[derive(Debug)]
pub(crate) struct SourceError {
    pub location: ErrorLocation,
    pub problem: String,
    pub expected: String,
}

impl SourceError {
    pub fn new(
        place: &ErrorLocation,
        what: impl Into<String>,
        expected: impl Into<String>,
    ) -> Self {
        Self { location: place.clone(), problem: what.into(), expected: expected.into() }
    }

    /// Returns the error for the file of this name.
    pub fn in_file(self, name: &str) -> Error {
        let Self { location: place, problem: what, expected } = self;
        let (what, expected) = (printable(&what), printable(&expected));
        Error { name: name.to_owned(), location: place, problem: what, expected }
    }
}

/// Makes text from files safe for terminals: no control characters, and a bounded length.
fn printable(text: &str) -> String {
    let mut letters = text.chars();
    let mut shown = String::new();
    for letter in letters.by_ref().take(LETTERS_MAX) {
        match letter.is_control() {
            true => shown.extend(letter.escape_default()),
            false => shown.push(letter),
        }
    }
    if letters.next().is_some() {
        shown.push_str("...");
    }
    shown
}
