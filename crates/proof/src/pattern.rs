//! A pattern of words that reveals a lost write, a stale page and a misplaced page.
//!
//! A word holds its own index in the high bits and the number of writes of its page in the low
//! bits. That number is also kept outside of the region. One thread writes a page, from its first
//! word to its last. Any thread may read it, from its last word to its first, and must never see
//! the number fall on the way: in a page that was copied while it was being written it falls.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};

use crate::word_value::{COUNT_MASK, is_before, owner, value, write_count};
use crate::{Findings, WrongWord};

/// A region and its expected content.
#[derive(Debug)]
pub struct Pattern<'a> {
    words: &'a [AtomicU64],
    page_words: usize,
    pages: Vec<WriteCounts>,
}

/// The number of writes of a page: `begun` is ahead of `done` during a write.
#[derive(Debug, Default)]
struct WriteCounts {
    begun: AtomicU32,
    done: AtomicU32,
}

/// The counts that one reader has seen of each page, below which none may fall for it.
#[derive(Debug)]
pub(crate) struct ReaderView(Vec<u32>);

impl<'a> Pattern<'a> {
    /// Fills a region with pages of `page_bytes` bytes. `words` must be whole pages.
    pub fn fill(words: &'a [AtomicU64], page_bytes: usize) -> Self {
        for (index, word) in words.iter().enumerate() {
            word.store(value(index, 0), Relaxed);
        }
        let page_words = page_bytes / size_of::<u64>();
        let pages = (0..words.len() / page_words).map(|_| WriteCounts::default()).collect();
        Self { words, page_words, pages }
    }

    /// Returns the number of pages.
    pub fn pages(&self) -> usize {
        self.pages.len()
    }

    /// Reads the first word of a page; waits if the page is in flight.
    pub fn touch(&self, page: usize) {
        std::hint::black_box(self.words[page * self.page_words].load(Relaxed));
    }

    /// Checks every word of a page and writes it anew. Only one thread may write a page.
    pub fn write(&self, page: usize, findings: &mut Findings) {
        let count = &self.pages[page];
        let turn = count.done.load(Relaxed);
        let next = turn.wrapping_add(1) & COUNT_MASK;
        count.begun.store(next, Relaxed);
        for (word, content) in self.page(page) {
            let (expected, found) = (value(word, turn), content.load(Relaxed));
            if found != expected {
                findings.record_lost(WrongWord { word, expected, found });
            }
            content.store(value(word, next), Release);
        }
        count.done.store(next, Release);
    }

    /// Checks every word of a page that another thread may be writing.
    pub(crate) fn read(&self, page: usize, seen: &mut ReaderView, findings: &mut Findings) {
        let mut least = self.pages[page].done.load(Acquire);
        for (word, content) in self.page(page).rev() {
            let found = content.load(Acquire);
            if word == page * self.page_words && is_before(least, seen.0[page]) {
                least = seen.0[page];
            }
            if owner(found) != Some(word) || is_before(write_count(found), least) {
                findings.record_torn(WrongWord { word, expected: value(word, least), found });
            } else {
                least = write_count(found);
            }
        }
        let most = self.pages[page].begun.load(Relaxed);
        if is_before(most, least) {
            let word = page * self.page_words;
            let (expected, found) = (value(word, most), value(word, least));
            findings.record_torn(WrongWord { word, expected, found });
        }
        seen.0[page] = least;
    }

    /// Checks every word. No thread may be writing.
    pub fn check_all(&self) -> Findings {
        let mut findings = Findings::default();
        for (page, count) in self.pages.iter().enumerate() {
            let turn = count.done.load(Acquire);
            for (word, content) in self.page(page) {
                let (expected, found) = (value(word, turn), content.load(Acquire));
                if found != expected {
                    findings.record_lost(WrongWord { word, expected, found });
                }
            }
        }
        findings
    }

    /// Returns the record of a reader that has read nothing yet.
    pub(crate) fn new_view(&self) -> ReaderView {
        ReaderView(self.pages.iter().map(|page| page.done.load(Acquire)).collect())
    }

    fn page(&self, page: usize) -> impl DoubleEndedIterator<Item = (usize, &'a AtomicU64)> {
        let range = page * self.page_words..(page + 1) * self.page_words;
        range.clone().zip(&self.words[range])
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Words of a page in these tests, and pages of a region.
    const WORDS: usize = 8;
    const PAGES: usize = 4;

    fn region() -> Vec<AtomicU64> {
        (0..WORDS * PAGES).map(|_| AtomicU64::new(0)).collect()
    }

    fn pattern(words: &[AtomicU64]) -> Pattern<'_> {
        Pattern::fill(words, WORDS * 8)
    }

    /// Overwrites a page, as a wrong migration would.
    fn overwrite(words: &[AtomicU64], to: usize, with: &[u64]) {
        for (word, content) in words[to * WORDS..].iter().zip(with) {
            word.store(*content, Relaxed);
        }
    }

    fn image(words: &[AtomicU64], page: usize) -> Vec<u64> {
        words[page * WORDS..][..WORDS].iter().map(|word| word.load(Relaxed)).collect()
    }

    /// Returns the number of wrong words found by the next write, the next read and the last check.
    fn found(pattern: &Pattern, page: usize) -> (u64, u64, u64) {
        let last = pattern.check_all().lost_writes;
        let mut read = Findings::default();
        pattern.read(page, &mut pattern.new_view(), &mut read);
        let mut written = Findings::default();
        pattern.write(page, &mut written);
        (written.lost_writes, read.torn_reads, last)
    }

    proptest! {
        /// Goal: pages that are only written are never found wrong, in any order.
        #[test]
        fn what_was_written_is_right(pages in prop::collection::vec(0..PAGES, 0..64)) {
            let words = region();
            let pattern = pattern(&words);
            let mut findings = Findings::default();
            let mut seen = pattern.new_view();
            for page in pages {
                pattern.write(page, &mut findings);
                pattern.read(page, &mut seen, &mut findings);
            }
            findings.add(&pattern.check_all());
            prop_assert!(findings.is_clean(), "{findings:?}");
        }

        /// Goal: any single changed bit is found, by each of the three checks.
        #[test]
        fn any_other_bit_is_wrong(word in 0..WORDS * PAGES, bit in 0..64_u32) {
            let words = region();
            let pattern = pattern(&words);
            words[word].fetch_xor(1 << bit, Relaxed);
            let (written, read, last) = found(&pattern, word / WORDS);
            prop_assert_eq!((written, last), (1, 1));
            prop_assert!(read >= 1);
        }
    }

    /// Goal: a page as it was before its last write is found, whole or only its last word.
    #[test]
    fn a_lost_write_is_found() {
        for stale_from in 0..WORDS {
            let words = region();
            let pattern = pattern(&words);
            let mut findings = Findings::default();
            let old = image(&words, 2);
            pattern.write(2, &mut findings);
            let mut now = image(&words, 2);
            now[stale_from..].copy_from_slice(&old[stale_from..]);
            overwrite(&words, 2, &now);
            let lost = (WORDS - stale_from) as u64;
            assert_eq!(found(&pattern, 2), (lost, lost, lost), "stale from word {stale_from}");
            assert!(findings.is_clean() && pattern.check_all().is_clean(), "written anew");
        }
    }

    /// Goal: two pages that changed places are both found, and the message names the words' owners.
    #[test]
    fn pages_that_changed_places_are_found() {
        let words = region();
        let pattern = pattern(&words);
        let (one, other) = (image(&words, 0), image(&words, 3));
        overwrite(&words, 0, &other);
        overwrite(&words, 3, &one);
        let findings = pattern.check_all();
        assert_eq!(findings.lost_writes, 2 * WORDS as u64);
        let said = findings.first.unwrap().to_string();
        assert_eq!(said, "word 0, written 0 times, held word 24, written 0 times");
        assert_eq!(found(&pattern, 3).1, WORDS as u64);
    }

    /// Goal: a page that came back empty is found.
    #[test]
    fn an_empty_page_is_found() {
        let words = region();
        let pattern = pattern(&words);
        overwrite(&words, 1, &[0; WORDS]);
        let said = pattern.check_all().first.unwrap().to_string();
        assert_eq!(said, "word 8, written 0 times, held no word of the region (0x0)");
        let all = WORDS as u64;
        assert_eq!(found(&pattern, 1), (all, all, all));
    }

    /// Goal: a page that was copied in the middle of a write is found while that write is under
    /// way, though each of the two counts is plausible by itself.
    #[test]
    fn a_torn_page_is_found() {
        let words = region();
        let pattern = pattern(&words);
        pattern.pages[0].begun.store(1, Relaxed);
        for written in [0, 1, 2] {
            words[written].store(value(written, 1), Relaxed);
        }
        let mut findings = Findings::default();
        pattern.read(0, &mut pattern.new_view(), &mut findings);
        assert!(findings.is_clean(), "a write that goes on is no fault");
        words[0].store(value(0, 0), Relaxed); // word 0 was written before words 1 and 2
        pattern.read(0, &mut pattern.new_view(), &mut findings);
        assert_eq!((findings.torn_reads, findings.lost_writes), (1, 0));
    }

    /// Goal: a word must not go back to a value that this reader has seen replaced, even while the
    /// write that replaced it is under way.
    #[test]
    fn a_word_that_goes_back_is_found() {
        let words = region();
        let pattern = pattern(&words);
        let (mut seen, mut findings) = (pattern.new_view(), Findings::default());
        pattern.pages[0].begun.store(1, Relaxed);
        words[0].store(value(0, 1), Relaxed);
        pattern.read(0, &mut seen, &mut findings);
        assert!(findings.is_clean());
        words[0].store(value(0, 0), Relaxed);
        pattern.read(0, &mut seen, &mut findings);
        assert_eq!(findings.torn_reads, 1);
    }

    /// Goal: a value that was not written yet is found.
    #[test]
    fn a_word_from_the_future_is_found() {
        let words = region();
        let pattern = pattern(&words);
        words[0].store(value(0, 7), Relaxed);
        assert_eq!(found(&pattern, 0), (1, 1, 1));
    }

    /// Goal: counts wrap around without a false alarm.
    #[test]
    fn counts_go_round() {
        let words = region();
        let pattern = pattern(&words);
        let (mut seen, mut findings) = (pattern.new_view(), Findings::default());
        for (number, page) in pattern.pages.iter().enumerate() {
            page.done.store(COUNT_MASK - 1, Relaxed);
            overwrite(
                &words,
                number,
                &(0..WORDS)
                    .map(|word| value(number * WORDS + word, COUNT_MASK - 1))
                    .collect::<Vec<_>>(),
            );
        }
        seen.0.fill(COUNT_MASK - 1);
        for _ in 0..4 {
            pattern.write(0, &mut findings);
            pattern.read(0, &mut seen, &mut findings);
        }
        assert!(findings.is_clean(), "{findings:?}");
        assert_eq!(seen.0[0], 2); // TURN_MASK - 1 + 4 = 2 (mod TURN_MASK + 1)
    }
}
