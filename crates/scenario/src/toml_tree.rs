//! The text of a scenario as a tree in which every value records where it was written.

use std::collections::BTreeMap;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::error::{ErrorLocation, SourceError};

/// Maximum length of a text; the largest machine that can be described takes a small part of it.
pub(crate) const TEXT_BYTES_MAX: usize = 1 << 20;

/// The kinds of values; TOML's dates are treated as texts.
#[derive(Clone, Debug)]
pub(crate) enum TomlValue {
    Text(String),
    /// As it was written. The integer is `None` with decimals or beyond 64 bits.
    Number(String, Option<u64>),
    Bool(bool),
    List(Vec<TomlItem>),
    Table(TomlTable),
}

/// A value with its key and its place.
#[derive(Clone, Debug)]
pub(crate) struct TomlItem {
    /// The last part of its key; items of a list have the key of the list.
    pub key: String,
    pub location: ErrorLocation,
    pub value: TomlValue,
}

/// Values by their keys.
#[derive(Clone, Debug)]
pub(crate) struct TomlTable {
    pub location: ErrorLocation,
    pub items: BTreeMap<String, TomlItem>,
}

/// Parses a text into a tree.
pub(crate) fn parse(text: &str) -> Result<TomlTable, SourceError> {
    if text.len() > TEXT_BYTES_MAX {
        let what = format!("{} bytes are too many", text.len());
        return Err(SourceError::new(&ErrorLocation::File, what, "a scenario of 1 MiB at most"));
    }
    let lines = LineIndex::new(text);
    let root = DeTable::parse(text).map_err(|error| syntax_error(&error, &lines))?;
    let place = |offset| ErrorLocation::Line(lines.line_of(offset));
    Ok(table(root.get_ref(), ErrorLocation::Line(1), &place))
}

/// Parses the value of `--set KEY=`: as in a file where that is possible, or else as a text.
pub(crate) fn override_value(key: &str, text: &str, place: &ErrorLocation) -> TomlItem {
    let parsed = DeValue::parse(text).ok().filter(|parsed| {
        !matches!(parsed.get_ref(), DeValue::Float(_) | DeValue::Datetime(_))
            && text.len() <= TEXT_BYTES_MAX
    });
    match parsed {
        Some(parsed) => item(key, &parsed, &|_| place.clone()),
        None => {
            let value = TomlValue::Text(text.to_owned());
            TomlItem { key: key.to_owned(), location: place.clone(), value }
        }
    }
}

fn syntax_error(error: &toml::de::Error, lines: &LineIndex) -> SourceError {
    let place = ErrorLocation::Line(error.span().map_or(1, |span| lines.line_of(span.start)));
    if error.message() == "duplicate key" {
        return SourceError::new(&place, error.message(), "every key of a table once");
    }
    match error.message().split_once(", expected ") {
        Some((what, expected)) => SourceError::new(&place, what, expected),
        None => {
            let expected = "TOML, as docs/reference/scenarios.md describes it";
            SourceError::new(&place, error.message(), expected)
        }
    }
}

fn table(
    parsed: &DeTable<'_>,
    place: ErrorLocation,
    place_of: &dyn Fn(usize) -> ErrorLocation,
) -> TomlTable {
    let items = parsed.iter().map(|(key, value)| {
        let key = key.get_ref().to_string();
        let item = item(&key, value, place_of);
        (key, item)
    });
    TomlTable { location: place, items: items.collect() }
}

fn item(
    key: &str,
    parsed: &Spanned<DeValue<'_>>,
    place_of: &dyn Fn(usize) -> ErrorLocation,
) -> TomlItem {
    let place = place_of(parsed.span().start);
    let value = match parsed.get_ref() {
        DeValue::String(text) => TomlValue::Text(text.to_string()),
        DeValue::Integer(number) => {
            let value = u64::from_str_radix(number.as_str(), number.radix()).ok();
            TomlValue::Number(
                value.map_or_else(|| number.to_string(), |value| value.to_string()),
                value,
            )
        }
        DeValue::Float(number) => TomlValue::Number(number.to_string(), None),
        DeValue::Boolean(value) => TomlValue::Bool(*value),
        DeValue::Datetime(date) => TomlValue::Text(date.to_string()),
        DeValue::Array(list) => {
            TomlValue::List(list.iter().map(|each| item(key, each, place_of)).collect())
        }
        DeValue::Table(inner) => TomlValue::Table(table(inner, place.clone(), place_of)),
    };
    TomlItem { key: key.to_owned(), location: place, value }
}

/// Offsets at which the lines of a text start.
struct LineIndex(Vec<usize>);

impl LineIndex {
    fn new(text: &str) -> Self {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        Self(ends.map(|(offset, _)| offset + 1).collect())
    }

    /// Returns the line of a byte, counted from 1.
    fn line_of(&self, offset: usize) -> u32 {
        let before = self.0.partition_point(|&start| start <= offset);
        u32::try_from(before + 1).unwrap_or(u32::MAX)
    }
}
