//! A value that breaks a rule, and its place.

use std::fmt;

use crate::error::ErrorLocation;
use crate::toml_tree::{TomlTable, TomlValue};

/// A violated rule.
#[derive(Debug)]
pub(crate) struct InvalidValue {
    pub path: ValuePath,
    pub problem: String,
    pub expected: String,
}

/// The position of a value in a scenario: a key, perhaps of a table, perhaps of one of several
/// tables.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ValuePath {
    /// The table, or the key itself if it is in none.
    table: &'static str,
    index: Option<usize>,
    key: Option<&'static str>,
}

impl ValuePath {
    pub fn root(key: &'static str) -> Self {
        Self { table: key, index: None, key: None }
    }

    pub fn machine(key: &'static str) -> Self {
        Self { table: "machine", index: None, key: Some(key) }
    }

    pub fn faults(key: &'static str) -> Self {
        Self { table: "faults", index: None, key: Some(key) }
    }

    pub fn of(table: &'static str, index: usize, key: &'static str) -> Self {
        Self { table, index: Some(index), key: Some(key) }
    }

    pub fn row(index: usize) -> Self {
        Self { table: "distances", index: Some(index), key: None }
    }

    /// Returns the place where the value was written. If it was not written, the place of the
    /// table, or the first line.
    pub fn location_in(&self, root: &TomlTable) -> ErrorLocation {
        let Some(mut item) = root.items.get(self.table) else { return root.location.clone() };
        if let (Some(index), TomlValue::List(items)) = (self.index, &item.value) {
            item = items.get(index).unwrap_or(item);
        }
        let key = self.key.and_then(|key| item.as_table()?.items.get(key));
        key.unwrap_or(item).location.clone()
    }
}

impl fmt::Display for ValuePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.table)?;
        if let Some(index) = self.index {
            write!(f, "[{index}]")?;
        }
        self.key.map_or(Ok(()), |key| write!(f, ".{key}"))
    }
}

/// Refuses a value unless a condition holds.
pub(crate) fn ensure(
    holds: bool,
    spot: ValuePath,
    what: impl FnOnce() -> String,
    expected: impl Into<String>,
) -> Result<(), InvalidValue> {
    if holds {
        Ok(())
    } else {
        Err(InvalidValue { path: spot, problem: what(), expected: expected.into() })
    }
}
