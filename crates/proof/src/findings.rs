//! The errors that checks of memory find.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::word_value::{owner, write_count};

/// Wrong words, counted. None if memory holds what was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Findings {
    /// Words that did not hold what their only writer wrote last.
    pub lost_writes: u64,
    /// Words that held, when read, a value that no thread can have left there at that time.
    pub torn_reads: u64,
    /// The first wrong word.
    pub first: Option<WrongWord>,
}

/// A word with a wrong value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrongWord {
    /// Index of the word in the region.
    pub word: usize,
    /// The expected value, or the least one.
    pub expected: u64,
    /// The value found.
    pub found: u64,
}

impl Findings {
    /// Returns whether nothing was wrong.
    pub fn is_clean(&self) -> bool {
        self.lost_writes == 0 && self.torn_reads == 0
    }

    /// Adds the findings of another thread.
    pub fn add(&mut self, other: &Self) {
        self.lost_writes += other.lost_writes;
        self.torn_reads += other.torn_reads;
        self.first = self.first.or(other.first);
    }

    #[cold]
    pub(crate) fn record_lost(&mut self, wrong: WrongWord) {
        self.lost_writes += 1;
        self.first.get_or_insert(wrong);
    }

    #[cold]
    pub(crate) fn record_torn(&mut self, wrong: WrongWord) {
        self.torn_reads += 1;
        self.first.get_or_insert(wrong);
    }
}

impl fmt::Display for WrongWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, wanted, found) =
            (self.word, write_count(self.expected), write_count(self.found));
        write!(f, "word {word}, written {wanted} times, held ")?;
        match owner(self.found) {
            None => write!(f, "no word of the region ({:#x})", self.found),
            Some(other) if other != word => write!(f, "word {other}, written {found} times"),
            Some(_) => write!(f, "what it held after {found} writes"),
        }
    }
}

impl Serialize for WrongWord {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
