//! Names of settings. A setting that was renamed is still accepted under its old name in files, in
//! variables and on the command line.

use std::ffi::OsString;
use std::fmt;

use crate::message::deprecated::report_deprecated;

/// The table of a setting, its old name, and its present name. The layers have the same aliases.
const OLD_NAMES: [(&str, &str, &str); 1] = [("balance", "looking", "cpu-budget")];

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
    pub fn read_variable(
        &self,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Option<(String, OsString)> {
        let read = |key: &Self| {
            let name = key.variable();
            let words = variable(&name).filter(|words| !words.is_empty())?;
            Some((name, words))
        };
        let is_this = |(table, _, new): &&(&str, &str, &str)| Self::new(table, new) == *self;
        let by_old_name = || {
            let (table, old, _) = OLD_NAMES.iter().find(is_this)?;
            let found = read(&Self::new(table, old))?;
            report_deprecated(&found.0, &self.variable());
            Some(found)
        };
        read(self).or_else(by_old_name)
    }

    /// Returns the variable that sets it: NODEWARD_BALANCE_INTERVAL for `balance.interval`.
    fn variable(&self) -> String {
        let words = format!("NODEWARD_{}_{}", self.table, self.name);
        words.replace('-', "_").to_ascii_uppercase()
    }
}
