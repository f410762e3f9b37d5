//! A loop with a known number of accesses, to check counts against.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Words of a cache line.
pub const LINE_WORDS: usize = 8;

/// Reads the first word of each line, and accesses no other memory but some words of the stack.
/// Returns the sum. (It is compiled here, where every profile optimizes it: otherwise each step
/// would use the stack.)
#[inline(never)]
pub fn read_lines(words: &[AtomicU64]) -> u64 {
    words.iter().step_by(LINE_WORDS).map(|word| word.load(Relaxed)).sum()
}
