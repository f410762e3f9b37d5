//! Node and CPU ids, and sets of them that may have holes.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use serde::ser::SerializeSeq as _;
use serde::{Deserialize, Serialize};

use crate::Escape as _;

/// A small number that names a node or a CPU.
pub trait Id: Copy + Ord + fmt::Display {
    /// One past the largest id that a [`Mask`] of this kind accepts.
    const LIMIT: u32;
    /// Builds the id from its number, which the caller keeps below [`Id::LIMIT`].
    fn from_number(number: u32) -> Self;
    /// Returns the number of the id.
    fn number(self) -> u32;
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $limit:expr) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub u32);

        impl Id for $name {
            const LIMIT: u32 = $limit;
            fn from_number(number: u32) -> Self {
                Self(number)
            }
            fn number(self) -> u32 {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id!(
    /// A memory node, as the kernel numbers it.
    NodeId,
    1024 // MAX_NUMNODES with the largest CONFIG_NODES_SHIFT in use (10)
);
id!(
    /// A logical CPU, as the kernel numbers it.
    CpuId,
    65536 // eight times the largest NR_CPUS in use (8192)
);

/// A set of ids, kept as bits; ids may have holes. Prints and parses as the kernel's lists:
/// `0-3,8`.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Mask<T> {
    words: Vec<u64>, // no trailing zero words, so that equal sets compare equal
    kind: PhantomData<T>,
}

/// A set of memory nodes.
pub type Nodemask = Mask<NodeId>;
/// A set of logical CPUs.
pub type Cpumask = Mask<CpuId>;

impl<T: Id> Mask<T> {
    /// The empty set.
    pub fn new() -> Self {
        Self { words: Vec::new(), kind: PhantomData }
    }

    /// Adds an id. Returns true if it was not yet in the set.
    ///
    /// # Panics
    /// If the id is not below [`Id::LIMIT`].
    pub fn insert(&mut self, id: T) -> bool {
        let number = id.number();
        assert!(number < T::LIMIT, "id {number} is beyond {}", T::LIMIT);
        let (word, bit) = bit_position(number);
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        let fresh = self.words[word] & bit == 0;
        self.words[word] |= bit;
        fresh
    }

    /// Removes an id. Returns true if it was in the set.
    pub fn remove(&mut self, id: T) -> bool {
        let present = self.contains(id);
        if present {
            let (word, bit) = bit_position(id.number());
            self.words[word] &= !bit;
            self.trim();
        }
        present
    }

    /// Returns true if the id is in the set.
    pub fn contains(&self, id: T) -> bool {
        let (word, bit) = bit_position(id.number());
        self.words.get(word).is_some_and(|w| w & bit != 0)
    }

    /// Iterates over the ids in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = T> + '_ {
        self.words.iter().enumerate().flat_map(|(i, &word)| {
            (0..64u32).filter(move |b| word >> b & 1 == 1).map(move |b| id_at::<T>(i, b))
        })
    }

    /// Returns the number of ids in the set.
    pub fn len(&self) -> usize {
        self.words.iter().map(|w| w.count_ones() as usize).sum()
    }

    /// Returns true if the set is empty.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Returns the smallest id.
    pub fn first(&self) -> Option<T> {
        self.iter().next()
    }

    /// Returns the largest id.
    pub fn last(&self) -> Option<T> {
        let word = self.words.last()?;
        Some(id_at(self.words.len() - 1, 63 - word.leading_zeros()))
    }

    /// Returns the ids in both sets.
    pub fn and(&self, other: &Self) -> Self {
        self.iter().filter(|&id| other.contains(id)).collect()
    }

    /// Returns the ids in either set.
    pub fn or(&self, other: &Self) -> Self {
        self.iter().chain(other.iter()).collect()
    }

    /// Returns the ids in this set that are not in the other.
    pub fn without(&self, other: &Self) -> Self {
        self.iter().filter(|&id| !other.contains(id)).collect()
    }

    /// Returns true if every id of this set is in the other.
    pub fn is_subset(&self, other: &Self) -> bool {
        self.iter().all(|id| other.contains(id))
    }

    fn trim(&mut self) {
        while self.words.last() == Some(&0) {
            self.words.pop();
        }
    }
}

fn bit_position(number: u32) -> (usize, u64) {
    ((number / 64) as usize, 1 << (number % 64))
}

fn id_at<T: Id>(word: usize, bit: u32) -> T {
    T::from_number(u32::try_from(word).unwrap_or(u32::MAX) * 64 + bit)
}

impl<T: Id> Default for Mask<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Id> FromIterator<T> for Mask<T> {
    fn from_iter<I: IntoIterator<Item = T>>(ids: I) -> Self {
        let mut mask = Self::new();
        mask.extend(ids);
        mask
    }
}

impl<T: Id> Extend<T> for Mask<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, ids: I) {
        for id in ids {
            self.insert(id);
        }
    }
}

impl<T: Id> fmt::Display for Mask<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut ids = self.iter().map(Id::number).peekable();
        let mut separator = "";
        while let Some(first) = ids.next() {
            let mut last = first;
            while ids.next_if_eq(&(last + 1)).is_some() {
                last += 1;
            }
            match last - first {
                0 => write!(f, "{separator}{first}")?,
                _ => write!(f, "{separator}{first}-{last}")?,
            }
            separator = ",";
        }
        Ok(())
    }
}

impl<T: Id> fmt::Debug for Mask<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{self}]")
    }
}

/// The error of a kernel list (such as `0-3,8`) that cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{}' is not a list of numbers such as 0-3,8 (each below {limit})",
    text.escaped()
)]
pub struct MaskParseError {
    text: String,
    limit: u32,
}

impl<T: Id> FromStr for Mask<T> {
    type Err = MaskParseError;

    /// Parses a list as sysfs prints it. White space around it is ignored, and an empty list is the
    /// empty set.
    fn from_str(text: &str) -> Result<Self, MaskParseError> {
        let wrong = || MaskParseError { text: text.trim().to_owned(), limit: T::LIMIT };
        let mut mask = Self::new();
        for part in text.trim().split(',').filter(|part| !part.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let first: u32 = first.parse().map_err(|_| wrong())?;
            let last: u32 = last.parse().map_err(|_| wrong())?;
            if first > last || last >= T::LIMIT {
                return Err(wrong());
            }
            mask.extend((first..=last).map(T::from_number));
        }
        Ok(mask)
    }
}

impl<T: Id> Serialize for Mask<T> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // The length is passed because formats that are not self-describing write it first.
        let mut seq = serializer.serialize_seq(Some(self.len()))?;
        self.iter().try_for_each(|id| seq.serialize_element(&id.number()))?;
        seq.end()
    }
}

impl<'de, T: Id> Deserialize<'de> for Mask<T> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let numbers = Vec::<u32>::deserialize(deserializer)?;
        match numbers.iter().find(|&&n| n >= T::LIMIT) {
            Some(n) => Err(serde::de::Error::custom(format!("id {n} is not below {}", T::LIMIT))),
            None => Ok(numbers.into_iter().map(T::from_number).collect()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_print_as_the_kernel_prints_them() {
        for text in ["", "0", "0-3", "0-1,3", "2,4,6-8", "63-64", "1023"] {
            let mask: Nodemask = text.parse().unwrap();
            assert_eq!(mask.to_string(), text);
        }
        let odd: Nodemask = " 3,1,2\n".parse().unwrap();
        assert_eq!(odd.to_string(), "1-3", "order and white space are forgiven");
    }

    #[test]
    fn malformed_lists_are_refused() {
        for text in ["x", "3-1", "1024", "0--2", "-1", "1-", "0x1"] {
            assert!(text.parse::<Nodemask>().is_err(), "{text}");
        }
    }

    #[test]
    fn sets_with_the_same_ids_are_equal_whatever_was_removed() {
        let mut mask: Nodemask = "0,500".parse().unwrap();
        assert!(mask.remove(NodeId(500)));
        assert!(!mask.remove(NodeId(500)));
        assert_eq!(mask, "0".parse().unwrap());
        assert_eq!(mask.last(), Some(NodeId(0)));
        assert!(mask.remove(NodeId(0)));
        assert!(mask.is_empty() && mask.last().is_none());
    }

    #[test]
    fn set_algebra() {
        let a: Cpumask = "0-3".parse().unwrap();
        let b: Cpumask = "2-5".parse().unwrap();
        assert_eq!(a.and(&b).to_string(), "2-3");
        assert_eq!(a.or(&b).to_string(), "0-5");
        assert_eq!(a.without(&b).to_string(), "0-1");
        assert!(a.and(&b).is_subset(&a) && !a.is_subset(&b));
        assert_eq!(a.len(), 4);
    }
}
