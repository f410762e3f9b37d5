//! Overrides: `--set KEY=VALUE`.
//!
//! Keys are those of the file, preceded by a table's name: `time`, `machine.latency`,
//! `faults.pinned`. An element of an array of tables is named in between: a node by its id
//! (`node.1.memory`), a workload by its name (`workload.stream.threads`), a link by its ends
//! (`link.0-1.latency`), an action by its index in the file, counted from 0 (`action.0.at`).

use std::collections::BTreeMap;

use crate::Params;
use crate::error::{ErrorLocation, SourceError};
use crate::read::{self, FAULT_KEYS, ROOT_KEYS};
use crate::suggest;
use crate::toml_tree::{self, TomlItem, TomlTable, TomlValue};

/// Sets one key.
pub(crate) fn apply(root: &mut TomlTable, key: &str, value: &str) -> Result<(), SourceError> {
    let place = ErrorLocation::Override(format!("{key}={value}"));
    let (table, last) = find_table(root, key, &place)?;
    table.items.insert(last.to_owned(), toml_tree::override_value(last, value, &place));
    Ok(())
}

/// Returns the table that a key is in, and the key's name there.
fn find_table<'t, 'k>(
    root: &'t mut TomlTable,
    key: &'k str,
    place: &ErrorLocation,
) -> Result<(&'t mut TomlTable, &'k str), SourceError> {
    let parts: Vec<_> = key.split('.').collect();
    match parts[..] {
        [last] => check_key(last, ROOT_KEYS, key, place).map(|()| (root, last)),
        ["machine", last] => {
            let names: Vec<_> = Params::TABLE.iter().map(|info| info.name).collect();
            check_key(last, &names, key, place)?;
            Ok((single_table(root, "machine", place)?, last))
        }
        ["faults", last] => {
            check_key(last, FAULT_KEYS, key, place)?;
            Ok((single_table(root, "faults", place)?, last))
        }
        [array @ ("node" | "workload" | "link" | "action"), which, last] => {
            let table = array_element(root, array, which, place)?;
            check_key(last, &element_keys(array, table), key, place)?;
            Ok((table, last))
        }
        _ => Err(SourceError::new(place, format!("no key '{key}'"), key_forms())),
    }
}

fn check_key(
    last: &str,
    keys: &[&str],
    key: &str,
    place: &ErrorLocation,
) -> Result<(), SourceError> {
    if keys.contains(&last) {
        return Ok(());
    }
    let nearest = suggest::expected_one_of(last, keys);
    let expected = if key == last { format!("{nearest}, or {}", key_forms()) } else { nearest };
    Err(SourceError::new(place, format!("no key '{key}'"), expected))
}

fn key_forms() -> &'static str {
    "a key of a table: machine.latency, node.0.memory, workload.NAME.threads, link.0-1.latency, \
     action.0.at, faults.pinned"
}

/// Returns a table that exists once, and creates it if it is missing.
fn single_table<'t>(
    root: &'t mut TomlTable,
    name: &str,
    place: &ErrorLocation,
) -> Result<&'t mut TomlTable, SourceError> {
    let empty = || {
        let value = TomlValue::Table(TomlTable { location: place.clone(), items: BTreeMap::new() });
        TomlItem { key: name.to_owned(), location: place.clone(), value }
    };
    let item = root.items.entry(name.to_owned()).or_insert_with(empty);
    let TomlValue::Table(table) = &mut item.value else {
        let what = format!("`{name}` is no table");
        return Err(SourceError::new(&item.location, what, format!("a table, headed [{name}]")));
    };
    Ok(table)
}

/// Returns the keys that an element of an array of tables may have.
fn element_keys(array: &str, table: &TomlTable) -> Vec<&'static str> {
    let said = |key: &str| table.items.get(key).and_then(TomlItem::scalar).unwrap_or_default();
    match array {
        "node" => read::NODE_KEYS.to_vec(),
        "link" => read::LINK_KEYS.to_vec(),
        "group" => read::GROUP_KEYS.to_vec(),
        "action" => [read::ACTION_KEYS, read::ACTION_KIND_KEYS].concat(),
        _ => [read::WORKLOAD_KEYS, read::keys_of(said("kind")).unwrap_or_default()].concat(),
    }
}

fn array_element<'t>(
    root: &'t mut TomlTable,
    array: &str,
    which: &str,
    place: &ErrorLocation,
) -> Result<&'t mut TomlTable, SourceError> {
    let items = match root.items.get_mut(array).map(|item| &mut item.value) {
        Some(TomlValue::List(items)) => items.as_mut_slice(),
        _ => &mut [],
    };
    let names: Vec<_> =
        items.iter().enumerate().map(|(at, item)| element_name(array, at, item)).collect();
    let found = names.iter().position(|name| name == which);
    match found.map(|found| &mut items[found].value) {
        Some(TomlValue::Table(table)) => Ok(table),
        _ => {
            let names: Vec<_> = names.iter().map(String::as_str).collect();
            let expected = match names.is_empty() {
                true => format!("a scenario with a table [[{array}]]"),
                false => suggest::expected_one_of(which, &names),
            };
            Err(SourceError::new(place, format!("there is no {array} '{which}'"), expected))
        }
    }
}

/// Returns the name of an element of an array of tables.
fn element_name(array: &str, index: usize, item: &TomlItem) -> String {
    let said = |key: &str| {
        let item = item.as_table().and_then(|table| table.items.get(key));
        item.and_then(TomlItem::scalar).unwrap_or_default().to_owned()
    };
    match array {
        "node" => said("id"),
        "workload" => said("name"),
        "link" => format!("{}-{}", said("from"), said("to")),
        _ => index.to_string(),
    }
}
