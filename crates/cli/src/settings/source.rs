//! One source of settings: a file, the environment, or the command line; each value with its place.

use std::ffi::OsString;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use nodeward_model::Escape as _;
use toml::Table;
use toml::de::DeTable;

use super::{Layer, SettingsError};

/// The file that we ship. Every value in it is the default.
const SAMPLE: &str = include_str!("../../../../packaging/nodeward.toml");

/// A setting's name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Its table.
    pub table: String,
    /// Its name in the table.
    pub name: String,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.table, self.name)
    }
}

impl Key {
    /// Returns the variable that sets it: NODEWARD_BALANCE_INTERVAL for `balance.interval`.
    fn variable(&self) -> String {
        let words = format!("NODEWARD_{}_{}", self.table, self.name);
        words.replace('-', "_").to_ascii_uppercase()
    }
}

/// The origin of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The command line.
    Typed,
    /// A variable of this name.
    Environment(String),
    /// The user's file.
    User {
        /// The file.
        path: PathBuf,
        /// Its line, from 1.
        line: usize,
    },
    /// The system's file.
    System {
        /// The file.
        path: PathBuf,
        /// Its line, from 1.
        line: usize,
    },
    /// No source sets it.
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Typed => f.write_str("typed"),
            Self::Environment(name) => write!(f, "${name}"),
            Self::User { path, line } | Self::System { path, line } => {
                write!(f, "{}, line {line}", path.escaped())
            }
            Self::Default => f.write_str("default"),
        }
    }
}

/// A value as it was written.
#[derive(Clone, Debug, PartialEq)]
pub struct Said {
    /// Its setting.
    pub key: Key,
    /// The value.
    pub value: toml::Value,
    /// Its origin.
    pub origin: Origin,
}

/// The content of one source.
#[derive(Clone, Debug, Default)]
pub struct Source {
    /// The values, checked.
    pub layer: Layer,
    /// The same as they were written, in that order.
    pub said: Vec<Said>,
}

impl Source {
    /// Parses a file; `place` gives the origin of its values.
    ///
    /// # Errors
    /// If it is not TOML, names an unknown setting, or has an invalid value.
    pub fn file(
        text: &str,
        path: &Path,
        place: fn(PathBuf, usize) -> Origin,
    ) -> Result<Self, SettingsError> {
        let wrong = |source: toml::de::Error| wrong(text, path, source);
        let layer = toml::from_str(text).map_err(wrong)?;
        let values: Table = toml::from_str(text).map_err(wrong)?;
        let said = keys(text).into_iter().filter_map(|(key, span)| {
            let value = values.get(&key.table)?.get(&key.name)?.clone();
            Some(Said { key, value, origin: place(path.to_owned(), line(text, span.start)) })
        });
        Ok(Self { layer, said: said.collect() })
    }

    /// Reads the variables of the keys.
    ///
    /// # Errors
    /// If one has an invalid value.
    pub fn environment(
        keys: impl IntoIterator<Item = Key>,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Self, SettingsError> {
        let mut all = Self::default();
        for key in keys {
            let name = key.variable();
            let Some(words) = variable(&name).filter(|words| !words.is_empty()) else { continue };
            let words = words.into_string().map_err(|words| SettingsError::Value {
                name: name.clone(),
                message: format!("'{}' is not UTF-8", words.escaped()),
            })?;
            all.add(key, words, Origin::Environment(name.clone()), &name)?;
        }
        Ok(all)
    }

    /// Parses typed KEY=VALUE words.
    ///
    /// # Errors
    /// If there is no such key, or it cannot have the value.
    pub fn typed(words: &[(String, String)]) -> Result<Self, SettingsError> {
        let mut all = Self::default();
        for (name, value) in words {
            let (table, name) = name.split_once('.').unwrap_or((name, ""));
            let key = Key { table: table.to_owned(), name: name.to_owned() };
            let shown = format!("'{key}={value}'");
            all.add(key, value.clone(), Origin::Typed, &shown)?;
        }
        Ok(all)
    }

    /// Returns the file that we ship: every setting.
    pub fn defaults() -> Self {
        Self::file(SAMPLE, Path::new(""), |_, _| Origin::Default).unwrap_or_default()
    }

    fn add(
        &mut self,
        key: Key,
        words: String,
        origin: Origin,
        shown: &str,
    ) -> Result<(), SettingsError> {
        let value = toml::Value::String(words);
        let inner = Table::from_iter([(key.name.clone(), value.clone())]);
        let outer = Table::from_iter([(key.table.clone(), toml::Value::Table(inner))]);
        let layer = outer.try_into::<Layer>().map_err(|error| SettingsError::Value {
            name: shown.to_owned(),
            message: error.message().to_owned(),
        })?;
        self.layer = layer.over(std::mem::take(&mut self.layer));
        self.said.retain(|said| said.key != key);
        self.said.push(Said { key, value, origin });
        Ok(())
    }
}

/// Returns all keys inside tables, each with its span in the text, in order.
fn keys(text: &str) -> Vec<(Key, Range<usize>)> {
    let Ok(tables) = DeTable::parse(text) else { return Vec::new() };
    let mut found = Vec::new();
    for (table, values) in tables.get_ref() {
        for (name, value) in values.get_ref().as_table().into_iter().flatten() {
            let key = Key { table: table.get_ref().to_string(), name: name.get_ref().to_string() };
            found.push((key, name.span().start..value.span().end));
        }
    }
    found.sort_by_key(|(_, span)| span.start);
    found
}

/// Returns the line, from 1, of a byte.
fn line(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|&byte| byte == b'\n').count() + 1
}

/// Creates the error of a file, with its line and key.
fn wrong(text: &str, path: &Path, source: toml::de::Error) -> SettingsError {
    let at = source.span().map_or(0, |span| span.start);
    let key = keys(text).into_iter().find(|(_, span)| span.contains(&at)).map(|(key, _)| key);
    let key = key.map_or_else(String::new, |key| format!(" ({key})"));
    SettingsError::Parse {
        path: path.to_owned(),
        place: format!("line {}{key}", line(text, at)),
        source: source.into(),
    }
}
