//! Reads groups of threads and memory, in the words of the settings.

use std::fmt::Display;
use std::str::FromStr;

use nodeward_model::{GroupHome, GroupSpec};

use crate::error::SourceError;
use crate::toml_tree::{TomlItem, TomlTable};

pub(crate) const KEYS: &[&str] = &["name", "match", "memory", "home"];

pub(super) fn group(table: &TomlTable) -> Result<GroupSpec, SourceError> {
    table.reject_unknown_keys(&[KEYS])?;
    Ok(GroupSpec {
        name: table.required("name", "a name such as `name = \"front\"`", words)?,
        home: table.optional("home", words)?.unwrap_or(GroupHome::Auto),
        members: table.required("match", "`match = [\"thread:front*\"]`", list)?,
        memory: table.optional("memory", list)?.unwrap_or_default(),
    })
}

/// Reads a value that is a text.
fn words<T: FromStr<Err: Display>>(item: &TomlItem) -> Result<T, SourceError> {
    item.as_text()?.parse().map_err(|error: T::Err| item.error(error.to_string()))
}

fn list<T: FromStr<Err: Display>>(item: &TomlItem) -> Result<Vec<T>, SourceError> {
    item.list("a list such as [\"thread:front*\"]")?.iter().map(words).collect()
}
