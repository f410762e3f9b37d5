//! A lot: a part of a region that one thread has to itself, and its expected content.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use nodeward::Region;

use crate::pattern::{Name, Turn, Verdict, Wrong, judge, value};
use crate::post;

/// Size of a base page, in bytes and in words.
pub const PAGE: usize = 4096;
pub const PAGE_WORDS: usize = PAGE / 8;

/// A part of a region, and the number of writes of each of its pages.
#[derive(Debug)]
pub struct Lot<'a> {
    pub region: &'a Region,
    /// Its byte range in the region.
    pub bytes: Range<usize>,
    owner: u8,
    /// Pages with the same number of writes have the same content.
    equal: bool,
    book: Vec<Turn>,
}

/// A page that does not hold what was written there.
#[derive(Clone, Debug)]
pub struct Finding {
    verdict: Verdict,
    owner: u8,
    address: u64,
    turn: Turn,
    wrong_words: usize,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Verdict { wrong, at, expected, found } = self.verdict;
        write!(
            f,
            "{wrong}: page {:#x} of owner {}, written {} times, word {at} held {found:#018x} \
             instead of {expected:#018x}; {} words of {PAGE_WORDS} are wrong",
            self.address, self.owner, self.turn, self.wrong_words
        )
    }
}

impl<'a> Lot<'a> {
    /// A lot that is empty.
    pub fn new(region: &'a Region, bytes: Range<usize>, owner: u8) -> Self {
        let book = vec![0; bytes.len() / PAGE];
        Self { region, bytes, owner, equal: false, book }
    }

    /// Makes a lot whose pages are equal.
    pub fn equal(self) -> Self {
        Self { equal: true, ..self }
    }

    pub fn pages(&self) -> usize {
        self.book.len()
    }

    pub fn words(&self) -> &'a [AtomicU64] {
        &self.region.words()[self.bytes.start / 8..self.bytes.end / 8]
    }

    /// Returns the words of some pages.
    pub fn words_of(&self, pages: Range<usize>) -> &'a [AtomicU64] {
        &self.words()[pages.start * PAGE_WORDS..pages.end * PAGE_WORDS]
    }

    fn page(&self, page: usize) -> &'a [AtomicU64] {
        self.words_of(page..page + 1)
    }

    fn name(&self, page: usize, at: usize) -> Name {
        let index = if self.equal { at } else { page * PAGE_WORDS + at };
        Name { owner: self.owner, index: index as u32 }
    }

    /// Returns the content of a page after `turn` writes.
    fn content(&self, page: usize, turn: Turn) -> impl Iterator<Item = u64> {
        (0..PAGE_WORDS).map(move |at| value(self.name(page, at), turn))
    }

    /// Writes pages anew.
    pub fn write(&mut self, pages: Range<usize>) {
        for page in pages {
            post::go_on();
            self.book[page] += 1;
            let content = self.content(page, self.book[page]);
            self.page(page)
                .iter()
                .zip(content)
                .for_each(|(word, value)| word.store(value, Relaxed));
        }
    }

    /// Returns the expected content of pages.
    pub fn image(&self, pages: Range<usize>) -> Vec<u8> {
        let words = pages.flat_map(|page| self.content(page, self.book[page]));
        words.flat_map(u64::to_ne_bytes).collect()
    }

    /// Counts a write of pages that other code will do, and returns the content to write.
    pub fn next_image(&mut self, pages: Range<usize>) -> Vec<u8> {
        self.book[pages.clone()].iter_mut().for_each(|turn| *turn += 1);
        self.image(pages)
    }

    /// Writes all pages anew, so that all have the same number of writes.
    pub fn level(&mut self) {
        let most = self.book.iter().max().copied().unwrap_or(0);
        self.book.fill(most);
        self.write(0..self.pages());
    }

    /// Checks a copy of pages that other code has read.
    pub fn check_copy(&self, pages: Range<usize>, copy: &[u8]) -> Result<(), Finding> {
        let (words, _) = copy.as_chunks();
        let words: Vec<u64> = words.iter().copied().map(u64::from_ne_bytes).collect();
        let of_page = words.chunks(PAGE_WORDS).zip(pages);
        of_page.into_iter().try_for_each(|(found, page)| {
            let verdict = judge(|at| self.name(page, at), self.book[page], found);
            verdict.map_or(Ok(()), |verdict| Err(self.finding(page, verdict, found)))
        })
    }

    /// Records that pages were emptied.
    pub fn emptied(&mut self, pages: Range<usize>) {
        self.book[pages].fill(0);
    }

    /// Checks every word of pages.
    pub fn check(&self, pages: Range<usize>) -> Result<(), Finding> {
        pages.into_iter().try_for_each(|page| self.check_page(page))
    }

    fn check_page(&self, page: usize) -> Result<(), Finding> {
        post::go_on();
        let turn = self.book[page];
        let right = |(word, value): (&AtomicU64, u64)| word.load(Relaxed) == value;
        if self.page(page).iter().zip(self.content(page, turn)).all(right) {
            return Ok(());
        }
        Err(self.look_closer(page))
    }

    /// Examines a page that had a wrong word; if it has none any more, that is reported too.
    fn look_closer(&self, page: usize) -> Finding {
        let found: Vec<u64> = self.page(page).iter().map(|word| word.load(Relaxed)).collect();
        let passing = Verdict { wrong: Wrong::Passing, at: 0, expected: found[0], found: found[0] };
        let verdict = judge(|at| self.name(page, at), self.book[page], &found);
        self.finding(page, verdict.unwrap_or(passing), &found)
    }

    fn finding(&self, page: usize, verdict: Verdict, found: &[u64]) -> Finding {
        let turn = self.book[page];
        let wrong = self.content(page, turn).zip(found).filter(|(one, other)| one != *other);
        let address = self.page(page).as_ptr() as u64;
        Finding { verdict, owner: self.owner, address, turn, wrong_words: wrong.count() }
    }

    /// Checks that each page is empty or holds what was written, and records which. Returns the
    /// number of empty pages.
    pub fn check_emptied_or_whole(&mut self, pages: Range<usize>) -> Result<usize, Finding> {
        let mut empty = 0;
        for page in pages {
            if self.page(page).iter().all(|word| word.load(Relaxed) == 0) {
                self.book[page] = 0;
                empty += 1;
            }
            self.check_page(page)?;
        }
        Ok(empty)
    }
}
