//! A cache that the CPUs of one node share: set-associative, with LRU replacement.

use std::hint;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};

use nodeward_lab_counts::CacheGeometry as Size;

/// Bytes per line.
pub const LINE_BYTES: u64 = 64;

/// The model of one node's cache.
#[derive(Debug)]
pub struct CacheModel {
    /// Lines by set, each set in LRU order. 0 is none, so line numbers are stored plus one.
    lines: Vec<AtomicU64>,
    /// One lock per set.
    locks: Vec<AtomicBool>,
    ways: usize,
}

impl CacheModel {
    /// Creates an empty cache. The number of its sets is rounded down to a power of two.
    pub fn new(size: Size) -> Self {
        let ways = size.ways.max(1);
        let sets = (size.bytes / LINE_BYTES / ways).max(1);
        let sets = 1 << sets.ilog2();
        let zeros = (0..sets * ways).map(|_| AtomicU64::new(0)).collect();
        let locks = (0..sets).map(|_| AtomicBool::new(false)).collect();
        Self { lines: zeros, locks, ways: ways as usize }
    }

    /// Accesses a line (its number, below the largest). Returns whether it was cached.
    pub fn access(&self, line: u64) -> bool {
        let set = line as usize & (self.locks.len() - 1);
        let lines = &self.lines[set * self.ways..][..self.ways];
        let lock = &self.locks[set];
        while lock.swap(true, Acquire) {
            hint::spin_loop();
        }
        let hit = move_to_front(lines, line + 1);
        lock.store(false, Release);
        hit
    }
}

/// Moves a line to the front of its set. Returns whether it was there; else the last line is
/// evicted.
fn move_to_front(lines: &[AtomicU64], line: u64) -> bool {
    let mut carried = line;
    for place in lines {
        let here = place.load(Relaxed);
        place.store(carried, Relaxed);
        if here == line {
            return true;
        }
        carried = here;
    }
    false
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    /// 16 sets of 4 lines.
    const SIZE: Size = Size { bytes: 16 * 4 * 64, ways: 4 };

    fn misses(llc: &CacheModel, lines: impl Iterator<Item = u64>) -> usize {
        lines.filter(|&line| !llc.access(line)).count()
    }

    /// Goal: a walk through more lines than the cache holds always misses.
    #[test]
    fn a_walk_beyond_the_size_misses_always() {
        let llc = CacheModel::new(SIZE);
        // 80 lines are five for each set of four.
        for _ in 0..3 {
            assert_eq!(misses(&llc, 0..80), 80);
        }
    }

    /// Goal: lines that fit miss once.
    #[test]
    fn a_walk_within_the_size_misses_once() {
        let llc = CacheModel::new(SIZE);
        assert_eq!(misses(&llc, 0..64), 64);
        assert_eq!(misses(&llc, 0..64), 0);
        assert_eq!(misses(&llc, (0..64).rev()), 0);
    }

    /// Goal: any size is valid, and the number of sets is a power of two.
    #[test]
    fn odd_sizes_are_rounded_down() {
        for (bytes, ways, lines) in
            [(0, 0, 1), (64, 1, 1), (4096 * 3, 8, 128), (3 << 20, 12, 49152)]
        {
            // 12 KiB in eight ways: 24 sets, so 16; 3 MiB in twelve: 4096 sets.
            assert_eq!(CacheModel::new(Size { bytes, ways }).lines.len(), lines);
        }
    }

    /// Goal: CPUs that use it concurrently neither lose lines nor find one twice.
    #[test]
    fn threads_may_share_it() {
        let llc = CacheModel::new(SIZE);
        let total: usize = std::thread::scope(|scope| {
            let threads = [0, 16, 32, 48].map(|first| {
                let llc = &llc;
                scope.spawn(move || (0..500).map(|_| misses(llc, first..first + 16)).sum::<usize>())
            });
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(total, 64); // each line once: together they fit
    }

    proptest! {
        /// Goal: hits and misses are those of an LRU list per set.
        #[test]
        fn it_is_what_a_list_says(lines in proptest::collection::vec(0..200_u64, 0..400)) {
            let llc = CacheModel::new(SIZE);
            let mut lists = vec![VecDeque::new(); 16];
            for line in lines {
                let list: &mut VecDeque<u64> = &mut lists[line as usize % 16];
                let expected = list.contains(&line);
                list.retain(|&other| other != line);
                list.push_front(line);
                list.truncate(4);
                prop_assert_eq!(llc.access(line), expected);
            }
        }
    }
}
