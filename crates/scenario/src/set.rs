//! Overrides: `--set KEY=VALUE`.
//!
//! Keys are those of the file, preceded by a table's name: `time`, `machine.latency`,
//! `faults.pinned`. An element of an array of tables is named in between: a node by its id
//! (`node.1.memory`), a workload by its name (`workload.stream.threads`), a link by its ends
//! (`link.0-1.latency`), an action by its index in the file, counted from 0 (`action.0.at`).

use std::collections::BTreeMap;

use crate::Params;
use crate::error::{Fault, Place};
use crate::near;
use crate::read::{self, FAULT_KEYS, ROOT_KEYS};
use crate::tree::{self, Item, Table, Value};

/// Sets one key.
pub(crate) fn apply(root: &mut Table, key: &str, value: &str) -> Result<(), Fault> {
    let place = Place::Set(format!("{key}={value}"));
    let (table, last) = table_of(root, key, &place)?;
    table.items.insert(last.to_owned(), tree::override_value(last, value, &place));
    Ok(())
}

/// Returns the table that a key is in, and the key's name there.
fn table_of<'t, 'k>(
    root: &'t mut Table,
    key: &'k str,
    place: &Place,
) -> Result<(&'t mut Table, &'k str), Fault> {
    let parts: Vec<_> = key.split('.').collect();
    match parts[..] {
        [last] => known(last, ROOT_KEYS, key, place).map(|()| (root, last)),
        ["machine", last] => {
            let names: Vec<_> = Params::TABLE.iter().map(|info| info.name).collect();
            known(last, &names, key, place)?;
            Ok((single(root, "machine", place)?, last))
        }
        ["faults", last] => {
            known(last, FAULT_KEYS, key, place)?;
            Ok((single(root, "faults", place)?, last))
        }
        [array @ ("node" | "workload" | "link" | "action"), which, last] => {
            let table = element(root, array, which, place)?;
            known(last, &keys(array, table), key, place)?;
            Ok((table, last))
        }
        _ => Err(Fault::new(place, format!("no key '{key}'"), shapes())),
    }
}

fn known(last: &str, keys: &[&str], key: &str, place: &Place) -> Result<(), Fault> {
    if keys.contains(&last) {
        return Ok(());
    }
    let nearest = near::one_of(last, keys);
    let expected = if key == last { format!("{nearest}, or {}", shapes()) } else { nearest };
    Err(Fault::new(place, format!("no key '{key}'"), expected))
}

fn shapes() -> &'static str {
    "a key of a table: machine.latency, node.0.memory, workload.NAME.threads, link.0-1.latency, \
     action.0.at, faults.pinned"
}

/// Returns a table that exists once, and creates it if it is missing.
fn single<'t>(root: &'t mut Table, name: &str, place: &Place) -> Result<&'t mut Table, Fault> {
    let empty = || {
        let value = Value::Table(Table { place: place.clone(), items: BTreeMap::new() });
        Item { key: name.to_owned(), place: place.clone(), value }
    };
    let item = root.items.entry(name.to_owned()).or_insert_with(empty);
    let Value::Table(table) = &mut item.value else {
        let what = format!("`{name}` is no table");
        return Err(Fault::new(&item.place, what, format!("a table, headed [{name}]")));
    };
    Ok(table)
}

/// Returns the keys that an element of an array of tables may have.
fn keys(array: &str, table: &Table) -> Vec<&'static str> {
    let said = |key: &str| table.items.get(key).and_then(Item::scalar).unwrap_or_default();
    match array {
        "node" => read::NODE_KEYS.to_vec(),
        "link" => read::LINK_KEYS.to_vec(),
        "action" => [read::ACTION_KEYS, read::ACTION_KIND_KEYS].concat(),
        _ => [read::WORKLOAD_KEYS, read::keys_of(said("kind")).unwrap_or_default()].concat(),
    }
}

fn element<'t>(
    root: &'t mut Table,
    array: &str,
    which: &str,
    place: &Place,
) -> Result<&'t mut Table, Fault> {
    let items = match root.items.get_mut(array).map(|item| &mut item.value) {
        Some(Value::List(items)) => items.as_mut_slice(),
        _ => &mut [],
    };
    let names: Vec<_> = items.iter().enumerate().map(|(at, item)| name(array, at, item)).collect();
    let found = names.iter().position(|name| name == which);
    match found.map(|found| &mut items[found].value) {
        Some(Value::Table(table)) => Ok(table),
        _ => {
            let names: Vec<_> = names.iter().map(String::as_str).collect();
            let expected = match names.is_empty() {
                true => format!("a scenario with a table [[{array}]]"),
                false => near::one_of(which, &names),
            };
            Err(Fault::new(place, format!("there is no {array} '{which}'"), expected))
        }
    }
}

/// Returns the name of an element of an array of tables.
fn name(array: &str, index: usize, item: &Item) -> String {
    let said = |key: &str| {
        let item = item.as_table().and_then(|table| table.items.get(key));
        item.and_then(Item::scalar).unwrap_or_default().to_owned()
    };
    match array {
        "node" => said("id"),
        "workload" => said("name"),
        "link" => format!("{}-{}", said("from"), said("to")),
        _ => index.to_string(),
    }
}
