//! Reads single values of a tree, each of its kind, with errors that name the place.

use nodeward_model::units;
use nodeward_model::{Id, Mask, NodeId};

use crate::error::{ErrorLocation, SourceError};
use crate::suggest;
use crate::toml_tree::{TomlItem, TomlTable, TomlValue};

const SIZE: &str = "a size such as 64K, 2MiB or 1.5GB";
const RATE: &str = "a rate above zero such as 500MB/s or 2GiB/s";
pub const TIME: &str = "a time such as 250us, 1ms or 2s";
pub const TIME_OR_ZERO: &str = "a time such as 250us, 1ms or 2s, or 0";

/// Reads each table of an array of tables.
pub fn read_tables<T>(
    root: &TomlTable,
    key: &str,
    read: impl Fn(&TomlTable) -> Result<T, SourceError>,
) -> Result<Vec<T>, SourceError> {
    let Some(item) = root.items.get(key) else { return Ok(Vec::new()) };
    item.tables()?.iter().map(|table| read(table)).collect()
}

impl TomlItem {
    /// Returns an error about this value.
    pub fn error(&self, expected: impl Into<String>) -> SourceError {
        let shown = match &self.value {
            TomlValue::Text(text) => format!("'{text}'"),
            TomlValue::Number(text, _) => text.clone(),
            TomlValue::Bool(value) => value.to_string(),
            TomlValue::List(_) => "a list".to_owned(),
            TomlValue::Table(_) => "a table".to_owned(),
        };
        SourceError::new(&self.location, format!("`{}` is {shown}", self.key), expected)
    }

    /// Returns a text or a number, as it was written.
    pub fn scalar(&self) -> Option<&str> {
        match &self.value {
            TomlValue::Text(text) | TomlValue::Number(text, _) => Some(text),
            _ => None,
        }
    }

    /// Parses a text or a number.
    pub fn read<T>(
        &self,
        expected: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, SourceError> {
        self.scalar().and_then(parse).ok_or_else(|| self.error(expected))
    }

    /// Returns the option that sets the value, if it is not the file.
    pub fn override_source(&self) -> Option<&'static str> {
        matches!(self.location, ErrorLocation::Override(_)).then_some("--set")
    }

    pub fn as_text(&self) -> Result<&str, SourceError> {
        match &self.value {
            TomlValue::Text(text) => Ok(text),
            _ => Err(self.error("a text in quotes")),
        }
    }

    pub fn number<T: TryFrom<u64>>(&self, expected: &str) -> Result<T, SourceError> {
        match self.value {
            TomlValue::Number(_, Some(number)) => T::try_from(number).ok(),
            _ => None,
        }
        .ok_or_else(|| self.error(expected))
    }

    pub fn list(&self, expected: &str) -> Result<&[TomlItem], SourceError> {
        match &self.value {
            TomlValue::List(items) => Ok(items),
            _ => Err(self.error(expected)),
        }
    }

    /// Returns the tables of an array of tables.
    pub fn tables(&self) -> Result<Vec<&TomlTable>, SourceError> {
        let wrong = |item: &Self| item.error(format!("tables, each headed [[{}]]", self.key));
        let TomlValue::List(items) = &self.value else { return Err(wrong(self)) };
        let table = |item: &'_ Self| matches!(item.value, TomlValue::Table(_));
        if let Some(other) = items.iter().find(|item| !table(item)) {
            return Err(wrong(other));
        }
        Ok(items.iter().filter_map(Self::as_table).collect())
    }

    pub fn as_table(&self) -> Option<&TomlTable> {
        match &self.value {
            TomlValue::Table(table) => Some(table),
            _ => None,
        }
    }

    /// Reads a node's number.
    pub fn node(&self) -> Result<NodeId, SourceError> {
        let expected = format!("the number of a node, below {}", NodeId::LIMIT);
        let number = self.scalar().and_then(|text| text.parse().ok());
        number.filter(|&id| id < NodeId::LIMIT).map(NodeId).ok_or_else(|| self.error(expected))
    }

    /// Reads a number or a list of numbers.
    pub fn mask<T: Id>(&self, limit: u32) -> Result<Mask<T>, SourceError> {
        let expected = format!("a list such as \"0-3,8\", of numbers below {limit}");
        self.read(&expected, |text| mask(text, limit))
    }
}

/// Parses a list of numbers below a limit. The cost of a list is bounded by the limit.
pub fn mask<T: Id>(text: &str, limit: u32) -> Option<Mask<T>> {
    let below = |part: &str| part.trim().parse::<u32>().is_ok_and(|number| number < limit);
    text.split([',', '-']).all(below).then(|| text.parse().ok()).flatten()
}

impl TomlTable {
    /// Refuses keys that are in none of these lists.
    pub fn reject_unknown_keys(&self, known: &[&[&str]]) -> Result<(), SourceError> {
        let known = known.concat();
        match self.items.iter().find(|(key, _)| !known.contains(&key.as_str())) {
            None => Ok(()),
            Some((key, item)) => Err(SourceError::new(
                &item.location,
                format!("unknown key '{key}'"),
                suggest::expected_one_of(key, &known),
            )),
        }
    }

    /// Reads the value of an optional key.
    pub fn optional<'a, T>(
        &'a self,
        key: &str,
        read: impl FnOnce(&'a TomlItem) -> Result<T, SourceError>,
    ) -> Result<Option<T>, SourceError> {
        self.items.get(key).map(read).transpose()
    }

    /// Reads the value of a required key.
    pub fn required<'a, T>(
        &'a self,
        key: &str,
        example: &str,
        read: impl FnOnce(&'a TomlItem) -> Result<T, SourceError>,
    ) -> Result<T, SourceError> {
        let missing = || SourceError::new(&self.location, format!("`{key}` is missing"), example);
        self.items.get(key).ok_or_else(missing).and_then(read)
    }

    pub fn text(&self, key: &str) -> Result<Option<&str>, SourceError> {
        self.optional(key, TomlItem::as_text)
    }

    pub fn time(&self, key: &str) -> Result<Option<u64>, SourceError> {
        self.optional(key, |item| item.read(TIME, |text| units::parse_duration_ns(text).ok()))
    }

    pub fn time_or_zero(&self, key: &str) -> Result<Option<u64>, SourceError> {
        self.optional(key, |item| item.read(TIME_OR_ZERO, time_or_zero))
    }

    pub fn rate(&self, key: &str) -> Result<Option<u64>, SourceError> {
        self.optional(key, |item| item.read(RATE, |text| units::parse_rate(text).ok()))
    }

    pub fn bytes(&self, key: &str) -> Result<Option<u64>, SourceError> {
        self.optional(key, TomlItem::bytes)
    }

    pub fn count(&self, key: &str) -> Result<Option<u32>, SourceError> {
        self.optional(key, |item| item.number("a number up to 4294967295"))
    }

    /// Reads a boolean; `false` if it is missing.
    pub fn flag(&self, key: &str) -> Result<bool, SourceError> {
        Ok(self.optional(key, |item| item.flag("true or false"))?.unwrap_or(false))
    }

    /// Reads one of some words.
    pub fn word<T: Copy>(&self, key: &str, words: &[(&str, T)]) -> Result<Option<T>, SourceError> {
        self.optional(key, |item| item.word(words))
    }
}

impl TomlItem {
    pub fn flag(&self, expected: &str) -> Result<bool, SourceError> {
        match self.value {
            TomlValue::Bool(value) => Ok(value),
            _ => Err(self.error(expected)),
        }
    }

    pub fn bytes(&self) -> Result<u64, SourceError> {
        self.read(SIZE, |text| units::parse_bytes(text).ok())
    }

    pub fn word<T: Copy>(&self, words: &[(&str, T)]) -> Result<T, SourceError> {
        let names: Vec<_> = words.iter().map(|(name, _)| *name).collect();
        let expected = suggest::expected_one_of(self.scalar().unwrap_or_default(), &names);
        let found = |text: &str| words.iter().find(|(name, _)| *name == text).map(|(_, t)| *t);
        self.read(&expected, found)
    }
}

pub fn time_or_zero(text: &str) -> Option<u64> {
    if text.trim() == "0" { Some(0) } else { units::parse_duration_ns(text).ok() }
}
