//! What is told of a scenario that cannot be used: where, what, and what was expected.

use std::fmt;

/// A message's part is cut off behind so many letters.
const LETTERS_MAX: usize = 500;

/// A scenario that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name}{place}: {what}; expected {expected}")]
pub struct Error {
    /// The file's path, or the scenario's name.
    pub name: String,
    /// Where in it.
    pub place: Place,
    /// What is wrong.
    pub what: String,
    /// What would be right.
    pub expected: String,
}

/// Where a fault is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the file as a whole.
    File,
    /// In a line, counted from 1.
    Line(u32),
    /// In an override, `key=value`.
    Set(String),
    /// In a value of a scenario that was not read from a text, such as `node[1].cpus`.
    Value(String),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File => Ok(()),
            Self::Line(line) => write!(f, ":{line}"),
            Self::Set(set) => write!(f, ": --set {set}"),
            Self::Value(value) => write!(f, ": {value}"),
        }
    }
}

impl Error {
    /// The line of the file, counted from 1.
    pub fn line(&self) -> Option<u32> {
        match self.place {
            Place::Line(line) => Some(line),
            _ => None,
        }
    }
}

/// An error before it is known in which file.
#[derive(Debug)]
pub(crate) struct Fault {
    pub place: Place,
    pub what: String,
    pub expected: String,
}

impl Fault {
    pub fn new(place: &Place, what: impl Into<String>, expected: impl Into<String>) -> Self {
        Self { place: place.clone(), what: what.into(), expected: expected.into() }
    }

    /// The error, in the file of this name.
    pub fn of(self, name: &str) -> Error {
        let Self { place, what, expected } = self;
        let (what, expected) = (printable(&what), printable(&expected));
        Error { name: name.to_owned(), place, what, expected }
    }
}

/// Texts from files go to terminals: no control characters, and no more than a terminal shows.
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
