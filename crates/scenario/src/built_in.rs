//! The built-in scenarios, and lookup of the texts of scenarios.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Read};

use crate::error::{Error, ErrorLocation, SourceError};
use crate::suggest;
use crate::toml_tree::TEXT_BYTES_MAX;

/// Defines the built-in scenarios from a list of file names.
macro_rules! built_in {
    ($($name:literal),* $(,)?) => {
        /// The built-in scenarios: names and texts.
        pub const BUILT_IN: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../../../scenarios/", $name, ".toml")))),*];
    };
}

built_in! {
    "two-nodes",
    "four-nodes-hole",
    "cpuless",
    "memoryless",
    "asymmetric",
    "two-socket",
    "sixteen-nodes",
    "ping-pong",
    "compile",
    "loopback",
    "cxl-tier",
    "page-fault",
    "page-migration-2017",
    "tlb-2023",
    "tlb-2023-arm64",
    "zen3",
    "exchange-2017",
    "home-2012",
    "wide-2004",
    "balance-2012",
    "balance-choked",
    "balance-wide",
    "balance-shared",
    "balance-sides",
    "balance-crowded",
    "balance-short",
    "database",
    "ranks",
    "balance-grouped",
    "balance-grouped-ranges",
    "balance-grouped-shared",
    "balance-parts",
    "balance-bound",
    "lab-crossed",
    "lab-grouped",
    "lab-grouped-shared",
    "lab-one-side",
    "lab-split",
    "lab-shared",
    "lab-sides",
    "lab-short",
    "lab-large",
    "lab-crowded",
    "lab-wide",
    "lab-bound",
    "lab-parts",
    "lab-parts-read",
}

/// The text of a scenario, read once and used for many scenarios that differ in some values.
#[derive(Clone, Debug)]
pub struct ScenarioText {
    name: String,
    text: Cow<'static, str>,
}

impl ScenarioText {
    /// Returns the text of a built-in scenario by its name, or else of a file by its path.
    ///
    /// # Errors
    /// If there is neither a built-in scenario of that name nor such a file.
    pub fn find(name_or_path: &str) -> Result<Self, Error> {
        let name = name_or_path.to_owned();
        if let Some((_, text)) = BUILT_IN.iter().find(|(name, _)| *name == name_or_path) {
            return Ok(Self { name, text: Cow::Borrowed(text) });
        }
        let text = read_file(name_or_path).map_err(|error| unreadable(&error, name_or_path))?;
        Ok(Self { name, text: Cow::Owned(text) })
    }

    /// Returns the name under which it was found.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the text as it is in the file.
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// Says why the text of a scenario cannot be had: only what does not exist may be a misspelt name.
fn unreadable(error: &io::Error, name_or_path: &str) -> Error {
    let (problem, expected) = match error.kind() {
        io::ErrorKind::NotFound => {
            let names: Vec<_> = BUILT_IN.iter().map(|(name, _)| *name).collect();
            let names = suggest::expected_one_of(name_or_path, &names);
            (format!("no such scenario ({error})"), format!("the path of a file, or {names}"))
        }
        _ => (format!("cannot be read ({error})"), "a readable text file".to_owned()),
    };
    SourceError::new(&ErrorLocation::File, problem, expected).in_file(name_or_path)
}

/// Reads a file's text; of an endless one, enough to be refused as too long.
fn read_file(path: &str) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(TEXT_BYTES_MAX as u64 + 1).read_to_string(&mut text)?;
    Ok(text)
}
