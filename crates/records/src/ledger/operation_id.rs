//! The number of an operation, and the name of its file.

use std::ffi::OsStr;
use std::fmt;
use std::str::FromStr;

use nodeward_model::Escape as _;
use serde::{Deserialize, Serialize};

/// The number of an operation in its store, from 1; later operations have larger ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OperationId(u64);

/// The error of a text that is no number of an operation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{}' is not the number of an operation; write one that `nodeward ledger` lists",
    .0.escaped()
)]
pub struct OperationIdError(String);

impl OperationId {
    pub(super) const FIRST: Self = Self(1);

    /// Returns the operation with this number; `None` for 0, which none has.
    pub fn of_number(number: u64) -> Option<Self> {
        (number > 0).then_some(Self(number))
    }

    /// Returns the number.
    pub fn number(self) -> u64 {
        self.0
    }

    /// Returns the next number, if there is one.
    pub(super) fn next(self) -> Option<Self> {
        self.0.checked_add(1).map(Self)
    }

    pub(super) fn file_name(self) -> String {
        format!("{self}.ledger")
    }

    /// Returns the operation whose file has this name. Each has exactly one name, so `01.ledger`
    /// belongs to none.
    pub(super) fn from_file_name(name: &OsStr) -> Option<Self> {
        let id: Self = name.to_str()?.strip_suffix(".ledger")?.parse().ok()?;
        (id.file_name().as_str() == name).then_some(id)
    }
}

impl FromStr for OperationId {
    type Err = OperationIdError;

    fn from_str(text: &str) -> Result<Self, OperationIdError> {
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        let number = text.parse().ok().filter(|_| digits);
        number.and_then(Self::of_number).ok_or_else(|| OperationIdError(text.to_owned()))
    }
}

impl fmt::Display for OperationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Formats ascending ids for people: `3-5, 7`.
pub(super) fn format_ids(ids: impl IntoIterator<Item = OperationId>) -> String {
    let mut ids = ids.into_iter().peekable();
    let mut parts = Vec::new();
    while let Some(first) = ids.next() {
        let mut last = first;
        while let Some(id) = ids.next_if(|&id| last.next() == Some(id)) {
            last = id;
        }
        parts.push(if first == last { first.to_string() } else { format!("{first}-{last}") });
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a number that a person types is a plain decimal number from 1.
    #[test]
    fn ids_are_plain_numbers() {
        assert_eq!("17".parse(), Ok(OperationId(17)));
        for text in ["", "0", "+1", "-1", "1.ledger", " 1", "18446744073709551616"] {
            assert!(text.parse::<OperationId>().is_err(), "{text}");
        }
    }

    /// Goal: each operation has one file, and other files belong to none.
    #[test]
    fn one_name_for_each() {
        assert_eq!(OperationId::from_file_name(OsStr::new("17.ledger")), Some(OperationId(17)));
        assert_eq!(
            OperationId::from_file_name(OsStr::new(&OperationId(17).file_name())),
            Some(OperationId(17))
        );
        for name in ["017.ledger", "0.ledger", "17", "17.ledger~", "lock", ".ledger"] {
            assert_eq!(OperationId::from_file_name(OsStr::new(name)), None, "{name}");
        }
    }

    /// Goal: consecutive numbers are shown as ranges.
    #[test]
    fn neighbours_are_put_together() {
        assert_eq!(format_ids([3, 4, 5, 7, 9, 10].map(OperationId)), "3-5, 7, 9-10");
        assert_eq!(format_ids([OperationId(u64::MAX)]), u64::MAX.to_string());
        assert_eq!(format_ids([]), "");
    }
}
