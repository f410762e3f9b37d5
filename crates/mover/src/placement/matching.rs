//! Matches threads and mappings of a process with those before its program was restarted.
//! Addresses, ids and inodes differ then; names, sizes and order do not.

use std::collections::BTreeMap;

use nodeward_model::MappingKind;
use nodeward_records::placement::SavedMapping;
use serde::{Deserialize, Serialize};

/// The beginnings of names that the kernel gives to memory that has no file of its own.
const NAMES_OF_NO_FILE: [&str; 4] = ["/dev/zero", "/SYSV", "/memfd:", "/anon_hugepage"];

/// The reason why something that was saved has no counterpart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unmatched {
    /// Nothing is like it.
    NoneAlike,
    /// There are more or fewer like it than there were, so it is not known which is which.
    Ambiguous,
}

impl Unmatched {
    /// Returns its name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::NoneAlike => "none-alike",
            Self::Ambiguous => "ambiguous",
        }
    }
}

/// Finds for each of the saved things the present one: of those with equal keys the first is the
/// first, and so on, if there are as many as there were.
pub(super) fn pair<K: Ord>(saved: &[K], present: &[K]) -> Vec<Result<usize, Unmatched>> {
    let (then, now) = (positions(saved), positions(present));
    let mut paired = vec![Err(Unmatched::NoneAlike); saved.len()];
    for (key, old) in then {
        let Some(new) = now.get(key) else { continue };
        for (place, &index) in old.iter().enumerate() {
            let is_sure = old.len() == new.len();
            paired[index] = if is_sure { Ok(new[place]) } else { Err(Unmatched::Ambiguous) };
        }
    }
    paired
}

fn positions<K: Ord>(keys: &[K]) -> BTreeMap<&K, Vec<usize>> {
    let mut positions: BTreeMap<&K, Vec<usize>> = BTreeMap::new();
    for (index, key) in keys.iter().enumerate() {
        positions.entry(key).or_default().push(index);
    }
    positions
}

/// The properties that tell a mapping from others.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MappingKey {
    kind: MappingKind,
    name: String,
    offset: u64,
    permissions: String,
    /// Its length, where nothing else tells it from others: files, heap and stack may grow.
    bytes: Option<u64>,
}

impl MappingKey {
    pub(super) fn of(mapping: &SavedMapping) -> Self {
        let name = mapping.name.as_str();
        // A file that was replaced by a newer version is the same one.
        let name = name.strip_suffix(" (deleted)").unwrap_or(name);
        let is_of_no_file = NAMES_OF_NO_FILE.iter().any(|beginning| name.starts_with(beginning));
        let (name, offset, bytes) = match mapping.kind {
            MappingKind::Heap | MappingKind::Stack => (String::new(), 0, None),
            MappingKind::Anonymous => (without_digits(name), 0, Some(mapping.bytes)),
            _ if is_of_no_file => (name.to_owned(), mapping.offset, Some(mapping.bytes)),
            _ => (name.to_owned(), mapping.offset, None),
        };
        let permissions = mapping.permissions.as_str().to_owned();
        Self { kind: mapping.kind, name, offset, permissions, bytes }
    }
}

/// Names that programs give to anonymous memory may have ids of threads in them.
fn without_digits(name: &str) -> String {
    name.chars().filter(|letter| !letter.is_ascii_digit()).collect()
}
