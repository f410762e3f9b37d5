//! The text of a scenario as a tree in which every value records where it was written.

use std::collections::BTreeMap;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::error::{Fault, Place};

/// Maximum length of a text; the largest machine that can be described takes a small part of it.
pub(crate) const TEXT_BYTES_MAX: usize = 1 << 20;

/// The kinds of values; TOML's dates are treated as texts.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Text(String),
    /// As it was written. The integer is `None` with decimals or beyond 64 bits.
    Number(String, Option<u64>),
    Bool(bool),
    List(Vec<Item>),
    Table(Table),
}

/// A value with its key and its place.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    /// The last part of its key; items of a list have the key of the list.
    pub key: String,
    pub place: Place,
    pub value: Value,
}

/// Values by their keys.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub place: Place,
    pub items: BTreeMap<String, Item>,
}

/// Parses a text into a tree.
pub(crate) fn parse(text: &str) -> Result<Table, Fault> {
    if text.len() > TEXT_BYTES_MAX {
        let what = format!("{} bytes are too many", text.len());
        return Err(Fault::new(&Place::File, what, "a scenario of 1 MiB at most"));
    }
    let lines = Lines::of(text);
    let root = DeTable::parse(text).map_err(|error| syntax(&error, &lines))?;
    let place = |offset| Place::Line(lines.at(offset));
    Ok(table(root.get_ref(), Place::Line(1), &place))
}

/// Parses the value of `--set KEY=`: as in a file where that is possible, or else as a text.
pub(crate) fn override_value(key: &str, text: &str, place: &Place) -> Item {
    let parsed = DeValue::parse(text).ok().filter(|parsed| {
        !matches!(parsed.get_ref(), DeValue::Float(_) | DeValue::Datetime(_))
            && text.len() <= TEXT_BYTES_MAX
    });
    match parsed {
        Some(parsed) => item(key, &parsed, &|_| place.clone()),
        None => {
            let value = Value::Text(text.to_owned());
            Item { key: key.to_owned(), place: place.clone(), value }
        }
    }
}

fn syntax(error: &toml::de::Error, lines: &Lines) -> Fault {
    let place = Place::Line(error.span().map_or(1, |span| lines.at(span.start)));
    if error.message() == "duplicate key" {
        return Fault::new(&place, error.message(), "every key of a table once");
    }
    match error.message().split_once(", expected ") {
        Some((what, expected)) => Fault::new(&place, what, expected),
        None => {
            let expected = "TOML, as docs/reference/scenarios.md describes it";
            Fault::new(&place, error.message(), expected)
        }
    }
}

fn table(parsed: &DeTable<'_>, place: Place, place_of: &dyn Fn(usize) -> Place) -> Table {
    let items = parsed.iter().map(|(key, value)| {
        let key = key.get_ref().to_string();
        let item = item(&key, value, place_of);
        (key, item)
    });
    Table { place, items: items.collect() }
}

fn item(key: &str, parsed: &Spanned<DeValue<'_>>, place_of: &dyn Fn(usize) -> Place) -> Item {
    let place = place_of(parsed.span().start);
    let value = match parsed.get_ref() {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(number) => {
            let value = u64::from_str_radix(number.as_str(), number.radix()).ok();
            Value::Number(
                value.map_or_else(|| number.to_string(), |value| value.to_string()),
                value,
            )
        }
        DeValue::Float(number) => Value::Number(number.to_string(), None),
        DeValue::Boolean(value) => Value::Bool(*value),
        DeValue::Datetime(date) => Value::Text(date.to_string()),
        DeValue::Array(list) => {
            Value::List(list.iter().map(|each| item(key, each, place_of)).collect())
        }
        DeValue::Table(inner) => Value::Table(table(inner, place.clone(), place_of)),
    };
    Item { key: key.to_owned(), place, value }
}

/// Offsets at which the lines of a text start.
struct Lines(Vec<usize>);

impl Lines {
    fn of(text: &str) -> Self {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        Self(ends.map(|(offset, _)| offset + 1).collect())
    }

    /// Returns the line of a byte, counted from 1.
    fn at(&self, offset: usize) -> u32 {
        let before = self.0.partition_point(|&start| start <= offset);
        u32::try_from(before + 1).unwrap_or(u32::MAX)
    }
}
