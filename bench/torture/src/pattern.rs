//! The value of each word: its owner, its index, and the number of writes of its page. These tell
//! apart a lost write, a torn page and a misplaced page.

use std::fmt;

/// The number of writes of a page; 0 if it is empty.
pub type WriteVersion = u32;

const VERSION_BITS: u32 = 32;
const INDEX_BITS: u32 = 24;

/// The identity of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WordId {
    /// The lot that it belongs to.
    pub owner: u8,
    /// Its index there.
    pub index: u32,
}

/// Returns the value of a word after `turn` writes of its page.
pub fn value(name: WordId, turn: WriteVersion) -> u64 {
    if turn == 0 {
        return 0;
    }
    let index = u64::from(name.index) & ((1 << INDEX_BITS) - 1);
    u64::from(name.owner) << (VERSION_BITS + INDEX_BITS) | index << VERSION_BITS | u64::from(turn)
}

fn word_id_of(value: u64) -> WordId {
    let index = (value >> VERSION_BITS) as u32 & ((1 << INDEX_BITS) - 1);
    WordId { owner: (value >> (VERSION_BITS + INDEX_BITS)) as u8, index }
}

/// An error in a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MismatchKind {
    /// The whole page has the content of an earlier write.
    LostWrite,
    /// A part of the page has the content of an earlier write.
    Torn,
    /// The page has the content of another page.
    OtherPage,
    /// The page, or a part of it, is empty.
    Empty,
    /// The value was never written.
    Garbage,
    /// The page was wrong for a moment only.
    Transient,
}

impl fmt::Display for MismatchKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LostWrite => "a lost write: the page is as it was before",
            Self::Torn => "a torn page: some of it is as it was before",
            Self::OtherPage => "another page",
            Self::Empty => "an empty page, or a part of one",
            Self::Garbage => "what nobody ever wrote",
            Self::Transient => "a word that was wrong when it was read first, and right afterwards",
        })
    }
}

/// Returns the error of a page whose words were read as `found`; `None` if there is none.
pub fn compare_page(
    names: impl Fn(usize) -> WordId,
    turn: WriteVersion,
    found: &[u64],
) -> Option<Mismatch> {
    let wrong = |&at: &usize| found[at] != value(names(at), turn);
    let at = (0..found.len()).find(wrong)?;
    let all = (0..found.len()).all(|at| wrong(&at));
    let (name, held) = (names(at), found[at]);
    let wrong = match held {
        0 => MismatchKind::Empty,
        _ if word_id_of(held) != name && held as u32 <= turn.max(1 << 20) => {
            MismatchKind::OtherPage
        }
        _ if word_id_of(held) != name || held as u32 > turn => MismatchKind::Garbage,
        _ if all => MismatchKind::LostWrite,
        _ => MismatchKind::Torn,
    };
    Some(Mismatch { kind: wrong, word: at, expected: value(name, turn), found: held })
}

/// The first wrong word of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mismatch {
    pub kind: MismatchKind,
    /// Its index in the page.
    pub word: usize,
    pub expected: u64,
    pub found: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS: usize = 512;

    fn name(at: usize) -> WordId {
        WordId { owner: 7, index: 1024 + at as u32 }
    }

    fn page(turn: WriteVersion) -> Vec<u64> {
        (0..WORDS).map(|at| value(name(at), turn)).collect()
    }

    fn wrong(found: &[u64]) -> Option<MismatchKind> {
        compare_page(name, 9, found).map(|verdict| verdict.kind)
    }

    /// Goal: each error that a mover of pages can make has its own name; a correct page has none.
    #[test]
    fn mistakes_are_told_apart() {
        assert_eq!(wrong(&page(9)), None);
        assert_eq!(wrong(&page(8)), Some(MismatchKind::LostWrite));
        let half = [&page(9)[..WORDS / 2], &page(8)[WORDS / 2..]].concat();
        assert_eq!(wrong(&half), Some(MismatchKind::Torn));
        assert_eq!(wrong(&[0; WORDS]), Some(MismatchKind::Empty));
        let other: Vec<u64> =
            (0..WORDS).map(|at| value(WordId { owner: 8, ..name(at) }, 9)).collect();
        assert_eq!(wrong(&other), Some(MismatchKind::OtherPage));
        assert_eq!(wrong(&page(10)), Some(MismatchKind::Garbage));
        assert_eq!(wrong(&[u64::MAX; WORDS]), Some(MismatchKind::Garbage));
    }

    /// Goal: any changed bit is detected, with its word.
    #[test]
    fn any_bit_is_seen() {
        for (at, bit) in (0..WORDS).zip((0..64).cycle()) {
            let mut found = page(9);
            found[at] ^= 1 << bit;
            assert_eq!(compare_page(name, 9, &found).map(|verdict| verdict.word), Some(at));
        }
    }

    /// Goal: an empty page is right where nothing was ever written, and any other page is wrong
    /// there.
    #[test]
    fn an_empty_page_may_be_right() {
        assert_eq!(compare_page(name, 0, &[0; WORDS]), None);
        assert!(compare_page(name, 0, &page(1)).is_some());
    }
}
