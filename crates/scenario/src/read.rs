//! Converts a tree to a scenario: every key must be known, and every value of its kind. Consistency
//! between values is not checked here.

mod action;
mod faults;
mod machine;
mod workload;

use nodeward_model::units;
use nodeward_model::{Id, Mask, NodeId};

use crate::error::{Fault, Place};
use crate::near;
use crate::tree::{Item, Table, Value};
use crate::{Scenario, Scheduler};

pub(crate) use action::{KEYS as ACTION_KEYS, KIND_KEYS as ACTION_KIND_KEYS};
pub(crate) use faults::KEYS as FAULT_KEYS;
pub(crate) use machine::{LINK_KEYS, NODE_KEYS};
pub(crate) use workload::{KEYS as WORKLOAD_KEYS, keys_of};

/// The keys outside of all tables.
pub(crate) const ROOT_KEYS: &[&str] =
    &["about", "distances", "symmetric", "scheduler", "numa-balancing", "time", "sample", "report"];
/// The tables.
pub(crate) const TABLES: &[&str] = &["machine", "node", "link", "workload", "action", "faults"];

/// Default simulated time.
const TIME_DEFAULT_NS: u64 = 1_000_000_000;
/// Default number of points of a time series.
const SAMPLES_DEFAULT: u64 = 100;

const SIZE: &str = "a size such as 64K, 2MiB or 1.5GB";
const RATE: &str = "a rate above zero such as 500MB/s or 2GiB/s";
const TIME: &str = "a time such as 250us, 1ms or 2s";
const TIME_OR_ZERO: &str = "a time such as 250us, 1ms or 2s, or 0";

/// Reads a scenario; its actions are in the order of the text.
pub(crate) fn scenario(name: &str, root: &Table) -> Result<Scenario, Fault> {
    root.only(&[ROOT_KEYS, TABLES])?;
    let time_ns = root.time("time")?.unwrap_or(TIME_DEFAULT_NS);
    let schedulers =
        [("blind", Scheduler::Blind), ("home", Scheduler::Home), ("numad", Scheduler::Numad)];
    let scheduler = root.word("scheduler", &schedulers)?;
    Ok(Scenario {
        name: name.to_owned(),
        about: root.text("about")?.unwrap_or_default().to_owned(),
        machine: machine::machine(root)?,
        workloads: each(root, "workload", workload::workload)?,
        scheduler: scheduler.unwrap_or_default(),
        numa_balancing: root.flag("numa-balancing")?,
        actions: each(root, "action", action::action)?,
        faults: root.read("faults", faults::faults)?,
        time_ns,
        sample_ns: root.time("sample")?.unwrap_or(time_ns.div_ceil(SAMPLES_DEFAULT)),
        report: report(root)?,
    })
}

fn report(root: &Table) -> Result<Vec<String>, Fault> {
    let Some(list) = root.items.get("report") else { return Ok(Vec::new()) };
    list.list("a list such as [\"locality\"]")?
        .iter()
        .map(|item| item.as_text().map(str::to_owned))
        .collect()
}

/// Reads each table of an array of tables.
fn each<T>(
    root: &Table,
    key: &str,
    read: impl Fn(&Table) -> Result<T, Fault>,
) -> Result<Vec<T>, Fault> {
    let Some(item) = root.items.get(key) else { return Ok(Vec::new()) };
    item.tables()?.iter().map(|table| read(table)).collect()
}

impl Item {
    /// Returns an error about this value.
    pub fn fault(&self, expected: impl Into<String>) -> Fault {
        let shown = match &self.value {
            Value::Text(text) => format!("'{text}'"),
            Value::Number(text, _) => text.clone(),
            Value::Bool(value) => value.to_string(),
            Value::List(_) => "a list".to_owned(),
            Value::Table(_) => "a table".to_owned(),
        };
        Fault::new(&self.place, format!("`{}` is {shown}", self.key), expected)
    }

    /// Returns a text or a number, as it was written.
    pub fn scalar(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) | Value::Number(text, _) => Some(text),
            _ => None,
        }
    }

    /// Parses a text or a number.
    pub fn read<T>(
        &self,
        expected: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, Fault> {
        self.scalar().and_then(parse).ok_or_else(|| self.fault(expected))
    }

    /// Returns the option that sets the value, if it is not the file.
    fn set_by(&self) -> Option<&'static str> {
        matches!(self.place, Place::Set(_)).then_some("--set")
    }

    fn as_text(&self) -> Result<&str, Fault> {
        match &self.value {
            Value::Text(text) => Ok(text),
            _ => Err(self.fault("a text in quotes")),
        }
    }

    fn number<T: TryFrom<u64>>(&self, expected: &str) -> Result<T, Fault> {
        match self.value {
            Value::Number(_, Some(number)) => T::try_from(number).ok(),
            _ => None,
        }
        .ok_or_else(|| self.fault(expected))
    }

    fn list(&self, expected: &str) -> Result<&[Item], Fault> {
        match &self.value {
            Value::List(items) => Ok(items),
            _ => Err(self.fault(expected)),
        }
    }

    /// Returns the tables of an array of tables.
    pub fn tables(&self) -> Result<Vec<&Table>, Fault> {
        let wrong = |item: &Self| item.fault(format!("tables, each headed [[{}]]", self.key));
        let Value::List(items) = &self.value else { return Err(wrong(self)) };
        let table = |item: &'_ Self| matches!(item.value, Value::Table(_));
        if let Some(other) = items.iter().find(|item| !table(item)) {
            return Err(wrong(other));
        }
        Ok(items.iter().filter_map(Self::as_table).collect())
    }

    pub fn as_table(&self) -> Option<&Table> {
        match &self.value {
            Value::Table(table) => Some(table),
            _ => None,
        }
    }

    /// Reads a node's number.
    fn node(&self) -> Result<NodeId, Fault> {
        let expected = format!("the number of a node, below {}", NodeId::LIMIT);
        let number = self.scalar().and_then(|text| text.parse().ok());
        number.filter(|&id| id < NodeId::LIMIT).map(NodeId).ok_or_else(|| self.fault(expected))
    }

    /// Reads a number or a list of numbers.
    fn mask<T: Id>(&self, limit: u32) -> Result<Mask<T>, Fault> {
        let expected = format!("a list such as \"0-3,8\", of numbers below {limit}");
        self.read(&expected, |text| mask(text, limit))
    }
}

/// Parses a list of numbers below a limit. The cost of a list is bounded by the limit.
fn mask<T: Id>(text: &str, limit: u32) -> Option<Mask<T>> {
    let below = |part: &str| part.trim().parse::<u32>().is_ok_and(|number| number < limit);
    text.split([',', '-']).all(below).then(|| text.parse().ok()).flatten()
}

impl Table {
    /// Refuses keys that are in none of these lists.
    fn only(&self, known: &[&[&str]]) -> Result<(), Fault> {
        let known = known.concat();
        match self.items.iter().find(|(key, _)| !known.contains(&key.as_str())) {
            None => Ok(()),
            Some((key, item)) => Err(Fault::new(
                &item.place,
                format!("unknown key '{key}'"),
                near::one_of(key, &known),
            )),
        }
    }

    /// Reads the value of an optional key.
    fn read<'a, T>(
        &'a self,
        key: &str,
        read: impl FnOnce(&'a Item) -> Result<T, Fault>,
    ) -> Result<Option<T>, Fault> {
        self.items.get(key).map(read).transpose()
    }

    /// Reads the value of a required key.
    fn need<'a, T>(
        &'a self,
        key: &str,
        example: &str,
        read: impl FnOnce(&'a Item) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let missing = || Fault::new(&self.place, format!("`{key}` is missing"), example);
        self.items.get(key).ok_or_else(missing).and_then(read)
    }

    fn text(&self, key: &str) -> Result<Option<&str>, Fault> {
        self.read(key, Item::as_text)
    }

    fn time(&self, key: &str) -> Result<Option<u64>, Fault> {
        self.read(key, |item| item.read(TIME, |text| units::parse_duration_ns(text).ok()))
    }

    fn time_or_zero(&self, key: &str) -> Result<Option<u64>, Fault> {
        self.read(key, |item| item.read(TIME_OR_ZERO, time_or_zero))
    }

    fn rate(&self, key: &str) -> Result<Option<u64>, Fault> {
        self.read(key, |item| item.read(RATE, |text| units::parse_rate(text).ok()))
    }

    fn bytes(&self, key: &str) -> Result<Option<u64>, Fault> {
        self.read(key, Item::bytes)
    }

    fn count(&self, key: &str) -> Result<Option<u32>, Fault> {
        self.read(key, |item| item.number("a number up to 4294967295"))
    }

    /// Reads a boolean; `false` if it is missing.
    fn flag(&self, key: &str) -> Result<bool, Fault> {
        Ok(self.read(key, |item| item.flag("true or false"))?.unwrap_or(false))
    }

    /// Reads one of some words.
    fn word<T: Copy>(&self, key: &str, words: &[(&str, T)]) -> Result<Option<T>, Fault> {
        self.read(key, |item| item.word(words))
    }
}

impl Item {
    fn flag(&self, expected: &str) -> Result<bool, Fault> {
        match self.value {
            Value::Bool(value) => Ok(value),
            _ => Err(self.fault(expected)),
        }
    }

    fn bytes(&self) -> Result<u64, Fault> {
        self.read(SIZE, |text| units::parse_bytes(text).ok())
    }

    fn word<T: Copy>(&self, words: &[(&str, T)]) -> Result<T, Fault> {
        let names: Vec<_> = words.iter().map(|(name, _)| *name).collect();
        let expected = near::one_of(self.scalar().unwrap_or_default(), &names);
        let found = |text: &str| words.iter().find(|(name, _)| *name == text).map(|(_, t)| *t);
        self.read(&expected, found)
    }
}

fn time_or_zero(text: &str) -> Option<u64> {
    if text.trim() == "0" { Some(0) } else { units::parse_duration_ns(text).ok() }
}
