//! A lot: a part of a region that one thread has to itself, and its expected content.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use nodeward::Region;

use crate::pattern::{Mismatch, MismatchKind, WordId, WriteVersion, compare_page, value};
use crate::thread_status;

/// Size of a base page, in bytes and in words.
pub const PAGE: usize = 4096;
pub const PAGE_WORDS: usize = PAGE / 8;

/// A part of a region, and the number of writes of each of its pages.
#[derive(Debug)]
pub struct OwnedRange<'a> {
    pub region: &'a Region,
    /// Its byte range in the region.
    pub bytes: Range<usize>,
    owner: u8,
    /// Pages with the same number of writes have the same content.
    has_equal_pages: bool,
    versions: Vec<WriteVersion>,
}

/// A page that does not hold what was written there.
#[derive(Clone, Debug)]
pub struct PageMismatch {
    mismatch: Mismatch,
    owner: u8,
    address: u64,
    version: WriteVersion,
    wrong_words: usize,
}

impl fmt::Display for PageMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Mismatch { kind: wrong, word: at, expected, found } = self.mismatch;
        write!(
            f,
            "{wrong}: page {:#x} of owner {}, written {} times, word {at} held {found:#018x} \
             instead of {expected:#018x}; {} words of {PAGE_WORDS} are wrong",
            self.address, self.owner, self.version, self.wrong_words
        )
    }
}

impl<'a> OwnedRange<'a> {
    /// A lot that is empty.
    pub fn new(region: &'a Region, bytes: Range<usize>, owner: u8) -> Self {
        let book = vec![0; bytes.len() / PAGE];
        Self { region, bytes, owner, has_equal_pages: false, versions: book }
    }

    /// Makes a lot whose pages are equal.
    pub fn with_equal_pages(self) -> Self {
        Self { has_equal_pages: true, ..self }
    }

    pub fn pages(&self) -> usize {
        self.versions.len()
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

    fn word_id(&self, page: usize, at: usize) -> WordId {
        let index = if self.has_equal_pages { at } else { page * PAGE_WORDS + at };
        WordId { owner: self.owner, index: index as u32 }
    }

    /// Returns the content of a page after `turn` writes.
    fn content(&self, page: usize, turn: WriteVersion) -> impl Iterator<Item = u64> {
        (0..PAGE_WORDS).map(move |at| value(self.word_id(page, at), turn))
    }

    /// Writes pages anew.
    pub fn write(&mut self, pages: Range<usize>) {
        for page in pages {
            thread_status::mark_progress();
            self.versions[page] += 1;
            let content = self.content(page, self.versions[page]);
            self.page(page)
                .iter()
                .zip(content)
                .for_each(|(word, value)| word.store(value, Relaxed));
        }
    }

    /// Returns the expected content of pages.
    pub fn image(&self, pages: Range<usize>) -> Vec<u8> {
        let words = pages.flat_map(|page| self.content(page, self.versions[page]));
        words.flat_map(u64::to_ne_bytes).collect()
    }

    /// Counts a write of pages that other code will do, and returns the content to write.
    pub fn advance_image(&mut self, pages: Range<usize>) -> Vec<u8> {
        self.versions[pages.clone()].iter_mut().for_each(|turn| *turn += 1);
        self.image(pages)
    }

    /// Writes all pages anew, so that all have the same number of writes.
    pub fn write_all_equal(&mut self) {
        let most = self.versions.iter().max().copied().unwrap_or(0);
        self.versions.fill(most);
        self.write(0..self.pages());
    }

    /// Checks a copy of pages that other code has read.
    pub fn check_copy(&self, pages: Range<usize>, copy: &[u8]) -> Result<(), PageMismatch> {
        let (words, _) = copy.as_chunks();
        let words: Vec<u64> = words.iter().copied().map(u64::from_ne_bytes).collect();
        let of_page = words.chunks(PAGE_WORDS).zip(pages);
        of_page.into_iter().try_for_each(|(found, page)| {
            let verdict = compare_page(|at| self.word_id(page, at), self.versions[page], found);
            verdict.map_or(Ok(()), |verdict| Err(self.page_mismatch(page, verdict, found)))
        })
    }

    /// Records that pages were emptied.
    pub fn mark_emptied(&mut self, pages: Range<usize>) {
        self.versions[pages].fill(0);
    }

    /// Checks every word of pages.
    pub fn check(&self, pages: Range<usize>) -> Result<(), PageMismatch> {
        pages.into_iter().try_for_each(|page| self.check_page(page))
    }

    fn check_page(&self, page: usize) -> Result<(), PageMismatch> {
        thread_status::mark_progress();
        let turn = self.versions[page];
        let right = |(word, value): (&AtomicU64, u64)| word.load(Relaxed) == value;
        if self.page(page).iter().zip(self.content(page, turn)).all(right) {
            return Ok(());
        }
        Err(self.diagnose(page))
    }

    /// Examines a page that had a wrong word; if it has none any more, that is reported too.
    fn diagnose(&self, page: usize) -> PageMismatch {
        let found: Vec<u64> = self.page(page).iter().map(|word| word.load(Relaxed)).collect();
        let passing = Mismatch {
            kind: MismatchKind::Transient,
            word: 0,
            expected: found[0],
            found: found[0],
        };
        let verdict = compare_page(|at| self.word_id(page, at), self.versions[page], &found);
        self.page_mismatch(page, verdict.unwrap_or(passing), &found)
    }

    fn page_mismatch(&self, page: usize, verdict: Mismatch, found: &[u64]) -> PageMismatch {
        let turn = self.versions[page];
        let wrong = self.content(page, turn).zip(found).filter(|(one, other)| one != *other);
        let address = self.page(page).as_ptr() as u64;
        PageMismatch {
            mismatch: verdict,
            owner: self.owner,
            address,
            version: turn,
            wrong_words: wrong.count(),
        }
    }

    /// Checks that each page is empty or holds what was written, and records which. Returns the
    /// number of empty pages.
    pub fn check_emptied_or_whole(&mut self, pages: Range<usize>) -> Result<usize, PageMismatch> {
        let mut empty = 0;
        for page in pages {
            if self.page(page).iter().all(|word| word.load(Relaxed) == 0) {
                self.versions[page] = 0;
                empty += 1;
            }
            self.check_page(page)?;
        }
        Ok(empty)
    }
}
