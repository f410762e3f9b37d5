//! One source of settings: a file, the environment, or the command line; each value with its place.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use nodeward_model::Escape as _;
use toml::Table;
use toml::de::DeTable;

use super::error::SettingsError;
use super::key::{SettingKey, Variables, may_set};
use super::layer::SettingsLayer;

/// The packaged settings file. Every value in it is the default.
const DEFAULTS_FILE: &str = include_str!("../../../../packaging/nodeward.toml");

/// The origin of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingOrigin {
    /// The command line.
    CommandLine,
    /// A variable of this name.
    Environment(String),
    /// The user's file.
    User {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
    /// The system's file.
    System {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
    /// No source sets it.
    Default,
}

impl fmt::Display for SettingOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CommandLine => f.write_str("typed"),
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
pub struct SettingValue {
    /// Its setting.
    pub key: SettingKey,
    /// The value.
    pub value: toml::Value,
    /// Its origin.
    pub origin: SettingOrigin,
}

/// The content of one source.
#[derive(Clone, Debug, Default)]
pub struct SettingsSource {
    /// The values, checked.
    pub layer: SettingsLayer,
    /// The same as they were written, in that order.
    pub values: Vec<SettingValue>,
}

impl SettingsSource {
    /// Parses a file; `place` gives the origin of its values.
    ///
    /// # Errors
    /// If it is not TOML, names an unknown setting, or has an invalid value.
    pub fn from_file(
        text: &str,
        path: &Path,
        place: fn(PathBuf, usize) -> SettingOrigin,
    ) -> Result<Self, SettingsError> {
        let wrong = |source: toml::de::Error| wrong(text, path, &source);
        let layer = toml::from_str(text).map_err(wrong)?;
        let values: Table = toml::from_str(text).map_err(wrong)?;
        let said = keys(text).into_iter().filter_map(|(key, span)| {
            let value = values.get(&key.table)?.get(&key.name)?.clone();
            Some(SettingValue {
                key: key.current(),
                value,
                origin: place(path.to_owned(), line(text, span.start)),
            })
        });
        Ok(Self { layer, values: said.collect() })
    }

    /// Reads the variables of the settings. Most commands have none, and then the names of all
    /// settings are not looked up.
    ///
    /// # Errors
    /// If one has an invalid value, or is named as those of a table and sets no key.
    pub fn from_environment(variables: &Variables) -> Result<Self, SettingsError> {
        let mut all = Self::default();
        if !variables.keys().any(|name| may_set(name)) {
            return Ok(all);
        }
        let keys = Self::default_keys();
        check_names(&keys, variables)?;
        for key in keys {
            let Some((name, words)) = key.read_variable(variables) else { continue };
            let words = words.to_str().ok_or_else(|| SettingsError::Value {
                name: name.clone(),
                message: format!("'{}' is not UTF-8", words.escaped()),
            })?;
            let origin = SettingOrigin::Environment(name.clone());
            all.add(key, words.to_owned(), origin, &name)?;
        }
        Ok(all)
    }

    /// Parses typed KEY=VALUE words.
    ///
    /// # Errors
    /// If there is no such key, or it cannot have the value.
    pub fn from_arguments(words: &[(String, String)]) -> Result<Self, SettingsError> {
        let mut all = Self::default();
        for (name, value) in words {
            let (table, name) = name.split_once('.').ok_or_else(|| SettingsError::Value {
                name: format!("'{name}={value}'"),
                message: "a key has a table, as in move.rate=500MB/s".to_owned(),
            })?;
            let key = SettingKey { table: table.to_owned(), name: name.to_owned() }.current();
            let shown = format!("'{key}={value}'");
            all.add(key, value.clone(), SettingOrigin::CommandLine, &shown)?;
        }
        Ok(all)
    }

    /// Returns the packaged settings file: every setting with its default.
    pub fn defaults() -> Self {
        Self::from_file(DEFAULTS_FILE, Path::new(""), |_, _| SettingOrigin::Default)
            .unwrap_or_default()
    }

    /// Returns the keys of the packaged settings file, in its order.
    pub fn default_keys() -> Vec<SettingKey> {
        keys(DEFAULTS_FILE).into_iter().map(|(key, _)| key).collect()
    }

    fn add(
        &mut self,
        key: SettingKey,
        words: String,
        origin: SettingOrigin,
        shown: &str,
    ) -> Result<(), SettingsError> {
        let value = toml::Value::String(words);
        let inner = Table::from_iter([(key.name.clone(), value.clone())]);
        let outer = Table::from_iter([(key.table.clone(), toml::Value::Table(inner))]);
        let layer = outer.try_into::<SettingsLayer>().map_err(|error| SettingsError::Value {
            name: shown.to_owned(),
            message: error.message().to_owned(),
        })?;
        self.layer = layer.over(std::mem::take(&mut self.layer));
        self.values.retain(|said| said.key != key);
        self.values.push(SettingValue { key, value, origin });
        Ok(())
    }
}

/// Refuses the first variable that is named as those of a table and sets no key.
fn check_names(keys: &[SettingKey], variables: &Variables) -> Result<(), SettingsError> {
    let of_tables: BTreeSet<String> = keys.iter().map(SettingKey::variables_of_table).collect();
    let sets_nothing = |name: &&str| {
        of_tables.iter().any(|table| name.starts_with(table))
            && !keys.iter().any(|key| key.is_set_by(name))
    };
    let set = variables.iter().filter(|(_, words)| !words.is_empty());
    match set.filter_map(|(name, _)| name.to_str()).find(sets_nothing) {
        None => Ok(()),
        Some(name) => Err(SettingsError::Value {
            name: name.to_owned(),
            message: "no setting has this variable (nodeward config print --effective lists the \
                      settings)"
                .to_owned(),
        }),
    }
}

/// Returns all keys inside tables, each with its span in the text, in order.
fn keys(text: &str) -> Vec<(SettingKey, Range<usize>)> {
    let Ok(tables) = DeTable::parse(text) else { return Vec::new() };
    let mut found = Vec::new();
    for (table, values) in tables.get_ref() {
        for (name, value) in values.get_ref().as_table().into_iter().flatten() {
            let key =
                SettingKey { table: table.get_ref().to_string(), name: name.get_ref().to_string() };
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
fn wrong(text: &str, path: &Path, source: &toml::de::Error) -> SettingsError {
    let at = source.span().map_or(0, |span| span.start);
    let key = keys(text).into_iter().find(|(_, span)| span.contains(&at)).map(|(key, _)| key);
    let key = key.map_or_else(String::new, |key| format!(" ({key})"));
    SettingsError::Parse {
        path: path.to_owned(),
        location: format!("line {}{key}", line(text, at)),
        message: source.message().escaped().to_string(),
    }
}
