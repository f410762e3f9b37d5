//! Names of files, processes and threads as a file keeps them.

use std::fmt;

use nodeward_model::name::sanitize_for_terminal;
use nodeward_model::{Escape, Name};
use serde::{Deserialize, Serialize};

/// A longer name is refused: four times the longest path of the kernel, whose bytes may each take
/// four characters.
const CHARS_MAX: usize = 4 * 4096;

/// A name in its escaped form: one line without characters that a terminal interprets. Two are
/// equal if the names are.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct EscapedName(String);

impl EscapedName {
    /// Returns the escaped form of a name.
    pub fn new(name: &(impl Escape + ?Sized)) -> Self {
        Self(name.escaped().to_string())
    }

    /// Returns it as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&Name> for EscapedName {
    fn from(name: &Name) -> Self {
        Self::new(name)
    }
}

impl TryFrom<String> for EscapedName {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let is_line = !text.contains(['\n', '\t']) && sanitize_for_terminal(&text) == text;
        match is_line && text.chars().nth(CHARS_MAX).is_none() {
            true => Ok(Self(text)),
            false => Err("a name is too long, or has characters that are not escaped"),
        }
    }
}

impl fmt::Display for EscapedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}
