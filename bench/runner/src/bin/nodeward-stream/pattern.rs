//! The content of the memory, and the thread that each page belongs to.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use nodeward_runner::FOREIGN_PAGE_STRIDE;

use crate::args::AccessPart;
use crate::thread_place::ThreadPlace;

/// One base page.
pub type StreamPage<'a> = &'a [AtomicU64];

/// Words in a cache line: 64 bytes.
const LINE_WORDS: usize = 8;
/// The low bits of a value are the number of writes of its line, the others identify the line.
const PASS_BITS: u32 = 24;

/// Writes the first value to each line of a page.
pub fn fill(page: StreamPage, number: usize) {
    for (line, word) in page.iter().step_by(LINE_WORDS).enumerate() {
        word.store(value(page, number, line, 0), Relaxed);
    }
}

/// Writes each line of a page. Returns how many did not hold the value of the pass before.
fn rewrite(page: StreamPage, number: usize, pass: u64) -> u64 {
    let mut lost = 0;
    for (line, word) in page.iter().step_by(LINE_WORDS).enumerate() {
        lost += u64::from(word.load(Relaxed) != value(page, number, line, pass - 1));
        word.store(value(page, number, line, pass), Relaxed);
    }
    lost
}

/// Reads each line of a page that another thread may be writing. Returns how many hold the value of
/// another line.
fn read(page: StreamPage, number: usize) -> u64 {
    let mut lost = 0;
    for (line, word) in page.iter().step_by(LINE_WORDS).enumerate() {
        let found = word.load(Relaxed) >> PASS_BITS;
        lost += u64::from(found != value(page, number, line, 0) >> PASS_BITS);
    }
    lost
}

/// Returns the value of a line. Never zero, so that a page that came back empty is detected.
fn value(page: StreamPage, number: usize, line: usize, pass: u64) -> u64 {
    let line = number * (page.len() / LINE_WORDS) + line + 1;
    (line as u64) << PASS_BITS | pass & ((1 << PASS_BITS) - 1)
}

/// Returns which of `threads` threads a page belongs to.
pub fn owning_thread(part: AccessPart, number: usize, pages: usize, threads: usize) -> usize {
    match part {
        AccessPart::Share | AccessPart::ReadShare | AccessPart::All | AccessPart::Pool => {
            number * threads / pages.max(1)
        }
        // The upper half of a product with the golden ratio scatters neighbours.
        AccessPart::Scattered => {
            let mixed = (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
            mixed as usize % threads
        }
    }
}

/// The pages that one thread goes through.
pub struct MemoryWalk<'a> {
    pages: &'a [StreamPage<'a>],
    part: AccessPart,
    own: Vec<usize>,
    others: Vec<usize>,
    pass: u64,
}

impl<'a> MemoryWalk<'a> {
    /// The walk of a thread.
    pub fn new(pages: &'a [StreamPage<'a>], part: AccessPart, place: ThreadPlace) -> Self {
        let ThreadPlace { number: thread, threads, pool: (pool, pools) } = place;
        let owner = |number: usize| owning_thread(part, number, pages.len(), threads);
        let is_own = |&number: &usize| owner(number) == thread;
        let (own, mut others): (Vec<_>, Vec<_>) = (0..pages.len()).partition(is_own);
        if part == AccessPart::Pool {
            others.retain(|&number| owner(number) * pools / threads == pool);
        }
        Self { pages, part, own, others, pass: 0 }
    }

    /// Goes through all pages once, and calls `pause` before each. Returns how many lines had a
    /// wrong value.
    pub fn pass(&mut self, mut pause: impl FnMut()) -> u64 {
        self.pass += 1;
        let mut lost = 0;
        for &number in &self.own {
            pause();
            lost += match self.part {
                AccessPart::ReadShare | AccessPart::All | AccessPart::Pool => {
                    read(self.pages[number], number)
                }
                AccessPart::Share | AccessPart::Scattered => {
                    rewrite(self.pages[number], number, self.pass)
                }
            };
        }
        for &number in self.foreign_pages() {
            pause();
            lost += read(self.pages[number], number);
        }
        lost
    }

    /// Returns the pages of other threads that this pass reads.
    fn foreign_pages(&self) -> impl Iterator<Item = &usize> {
        let (first, step) = match self.part {
            AccessPart::Share | AccessPart::ReadShare => (self.others.len(), 1),
            AccessPart::All | AccessPart::Pool => (0, 1),
            AccessPart::Scattered => {
                (self.pass as usize % FOREIGN_PAGE_STRIDE, FOREIGN_PAGE_STRIDE)
            }
        };
        self.others.iter().skip(first).step_by(step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE_WORDS: usize = 512;

    fn memory(pages: usize) -> Vec<AtomicU64> {
        (0..pages * PAGE_WORDS).map(|_| AtomicU64::new(0)).collect()
    }

    fn filled(words: &[AtomicU64]) -> Vec<StreamPage<'_>> {
        let pages: Vec<StreamPage> = words.chunks_exact(PAGE_WORDS).collect();
        pages.iter().enumerate().for_each(|(number, page)| fill(page, number));
        pages
    }

    /// Returns the place of thread `number` of `threads`, which are in two pools if they are more
    /// than two.
    fn place(number: usize, threads: usize) -> ThreadPlace {
        let pools = if threads > 2 { 2 } else { 1 };
        ThreadPlace { number, threads, pool: (number * pools / threads, pools) }
    }

    fn passes(
        pages: &[StreamPage],
        part: AccessPart,
        (threads, count): (usize, usize),
    ) -> (u64, usize) {
        let mut touched = 0;
        let walk = |number| MemoryWalk::new(pages, part, place(number, threads));
        let mut walks: Vec<MemoryWalk> = (0..threads).map(walk).collect();
        let mut lost = 0;
        for walk in (0..count).flat_map(|_| 0..threads) {
            lost += walks[walk].pass(|| touched += 1);
        }
        (lost, touched)
    }

    /// Goal: each part covers as many pages as documented, and loses nothing by itself.
    #[test]
    fn every_part_is_gone_through() {
        let words = memory(32);
        let pages = filled(&words);
        // Two threads, three passes: each page once a pass, or by both.
        assert_eq!(passes(&pages, AccessPart::Share, (2, 3)), (0, 3 * 32));
        let words = memory(32);
        assert_eq!(passes(&filled(&words), AccessPart::ReadShare, (2, 3)), (0, 3 * 32));
        assert_eq!(passes(&filled(&words), AccessPart::All, (2, 3)), (0, 3 * 32 * 2));
        // Four threads in two pools of 16 pages.
        let words = memory(32);
        assert_eq!(passes(&filled(&words), AccessPart::Pool, (4, 3)), (0, 3 * 4 * 16));
        let words = memory(32);
        let (lost, touched) = passes(&filled(&words), AccessPart::Scattered, (2, 8));
        // In eight passes every page of the others is read once.
        assert_eq!((lost, touched), (0, 8 * 32 + 32));
    }

    /// Goal: scattered pages belong to all threads about equally, and neighbours to different ones.
    #[test]
    fn scattered_pages_have_all_owners() {
        let owners: Vec<usize> =
            (0..4096).map(|n| owning_thread(AccessPart::Scattered, n, 4096, 4)).collect();
        for thread in 0..4 {
            let own = owners.iter().filter(|&&owner| owner == thread).count();
            assert!((900..1150).contains(&own), "{own} of 4096 pages are thread {thread}'s");
        }
        let changes = owners.windows(2).filter(|pair| pair[0] != pair[1]).count();
        assert!(changes > 2048, "{changes} neighbours have different owners");
    }

    /// Goal: a page that came back empty, with the content of an earlier pass, or with that of
    /// another page, is detected.
    #[test]
    fn what_is_lost_is_seen() {
        let (words, fresh) = (memory(4), memory(4));
        let pages = filled(&words);
        filled(&fresh);
        let mut walk = MemoryWalk::new(&pages, AccessPart::Share, place(0, 1));
        assert_eq!(walk.pass(|| ()), 0);
        let copy = |to: usize, from: &[AtomicU64]| {
            let (to, from) = (pages[to].iter(), from.iter());
            to.zip(from).for_each(|(to, from)| to.store(from.load(Relaxed), Relaxed));
        };
        copy(0, &memory(1));
        copy(1, &fresh[PAGE_WORDS..]);
        copy(2, pages[3]);
        // 64 lines in each of three pages.
        assert_eq!(walk.pass(|| ()), 3 * 64);
        assert_eq!(walk.pass(|| ()), 0, "they were written again");
        copy(2, pages[3]);
        assert_eq!(
            MemoryWalk::new(&pages, AccessPart::All, place(0, 1)).pass(|| ()),
            64,
            "readers see it, too"
        );
    }
}
