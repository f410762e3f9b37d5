//! Names of settings. A setting that was renamed is still accepted under its old name in files, in
//! variables and on the command line.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;

use crate::message::deprecated::report_deprecated;

/// The table of a setting, its old name, and its present name. The layers have the same aliases.
const OLD_NAMES: [(&str, &str, &str); 1] = [("balance", "looking", "cpu-budget")];

/// How the name of each variable of a setting begins.
const PREFIX: &str = "NODEWARD_";

/// Environment variables by their names.
pub type Variables = BTreeMap<OsString, OsString>;

/// A setting's name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SettingKey {
    /// Its table.
    pub table: String,
    /// Its name in the table.
    pub name: String,
}

impl fmt::Display for SettingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.table, self.name)
    }
}

impl SettingKey {
    fn new(table: &str, name: &str) -> Self {
        Self { table: table.to_owned(), name: name.to_owned() }
    }

    /// Returns the key of this name, or the one in use if this name is old, which is reported.
    pub fn current(self) -> Self {
        let is_this = |(table, old, _): &&(&str, &str, &str)| Self::new(table, old) == self;
        let Some((table, _, new)) = OLD_NAMES.iter().find(is_this) else { return self };
        let current = Self::new(table, new);
        report_deprecated(&self.to_string(), &current.to_string());
        current
    }

    /// Returns the setting's variable, by its name in use or by an old one, which is reported.
    pub fn read_variable<'a>(&self, variables: &'a Variables) -> Option<(String, &'a OsStr)> {
        let read = |key: &Self| {
            let name = key.variable();
            let words = variables.get(OsStr::new(&name)).filter(|words| !words.is_empty())?;
            Some((name, words.as_os_str()))
        };
        let by_old_name = || {
            let found = read(&self.old_name()?)?;
            report_deprecated(&found.0, &self.variable());
            Some(found)
        };
        read(self).or_else(by_old_name)
    }

    /// Says whether a variable sets it, by its name in use or by an old one.
    pub fn is_set_by(&self, variable: &str) -> bool {
        let keys = [Some(self.clone()), self.old_name()];
        keys.into_iter().flatten().any(|key| key.variable() == variable)
    }

    fn old_name(&self) -> Option<Self> {
        let is_this = |(table, _, new): &&(&str, &str, &str)| Self::new(table, new) == *self;
        OLD_NAMES.iter().find(is_this).map(|(table, old, _)| Self::new(table, old))
    }

    /// Returns the variable that sets it: NODEWARD_BALANCE_INTERVAL for `balance.interval`.
    fn variable(&self) -> String {
        let words = format!("{}{}", self.variables_of_table(), self.name);
        words.replace('-', "_").to_ascii_uppercase()
    }

    /// Returns how the variables of its table begin: NODEWARD_BALANCE_.
    pub fn variables_of_table(&self) -> String {
        format!("{PREFIX}{}_", self.table.to_ascii_uppercase())
    }
}

/// Says whether a variable has a name as those of settings do.
pub fn may_set(variable: &OsStr) -> bool {
    variable.as_encoded_bytes().starts_with(PREFIX.as_bytes())
}
