//! A pattern that reveals both a lost write and a misplaced page.
//!
//! The words of a page are written in turn. Each value mixes the number of the write with the
//! number of the page. The expected content of every word follows from one counter per page, which
//! only the writer of that page has.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// A page and its number of writes.
#[derive(Debug)]
pub struct WrittenPage<'a> {
    page: &'a [AtomicU64],
    salt: u64,
    next: u64,
}

impl<'a> WrittenPage<'a> {
    /// Writes every word once. Pages with equal salt have equal content.
    pub fn fill(page: &'a [AtomicU64], salt: u64) -> Self {
        for (number, word) in (0..).zip(page) {
            word.store(value(salt, number), Relaxed);
        }
        Self { page, salt, next: page.len() as u64 }
    }

    /// Writes the next word. Returns whether it still held the value last written there.
    pub fn write_next(&mut self) -> bool {
        let turn = self.page.len() as u64;
        let word = &self.page[(self.next % turn) as usize];
        let intact = word.load(Relaxed) == value(self.salt, self.next - turn);
        word.store(value(self.salt, self.next), Relaxed);
        self.next += 1;
        intact
    }

    /// Returns whether every word holds the value last written.
    pub fn is_intact(&self) -> bool {
        let turn = self.page.len() as u64;
        let oldest = self.next - turn;
        (oldest..self.next).all(|number| {
            self.page[(number % turn) as usize].load(Relaxed) == value(self.salt, number)
        })
    }

    /// Returns the address of the page.
    pub fn address(&self) -> u64 {
        self.page.as_ptr() as u64
    }
}

/// Returns the value of a write. Never zero for a number below 2^63, so that a page that came back
/// empty is detected.
fn value(salt: u64, number: u64) -> u64 {
    let mixed = (number ^ salt << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed | 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> Vec<AtomicU64> {
        (0..8).map(|_| AtomicU64::new(0)).collect()
    }

    /// Goal: a page that is only written is intact after every write.
    #[test]
    fn written_pages_are_intact() {
        let words = page();
        let mut written = WrittenPage::fill(&words, 3);
        for _ in 0..20 {
            assert!(written.is_intact() && written.write_next());
        }
    }

    /// Goal: a lost write is detected by a check of the page and by the next write there.
    #[test]
    fn a_lost_write_is_seen() {
        let words = page();
        let mut written = WrittenPage::fill(&words, 3);
        let before = words[0].load(Relaxed);
        written.write_next();
        words[0].store(before, Relaxed);
        assert!(!written.is_intact());
        assert_eq!((1..9).filter(|_| !written.write_next()).count(), 1, "word 0 comes round once");
        assert!(written.is_intact(), "it was written again");
    }

    /// Goal: a page that was swapped with another one, or came back empty, is detected.
    #[test]
    fn another_page_is_seen() {
        let (one, other) = (page(), page());
        let written = WrittenPage::fill(&one, 1);
        WrittenPage::fill(&other, 2);
        for (to, from) in one.iter().zip(&other) {
            to.store(from.load(Relaxed), Relaxed);
        }
        assert!(!written.is_intact());
        one.iter().for_each(|word| word.store(0, Relaxed));
        assert!(!written.is_intact());
    }
}
