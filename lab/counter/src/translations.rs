//! A CPU's own cache of translations, because asking the emulator takes longer than everything
//! else. It is dropped by every instruction that flushes translations, so it is never staler than a
//! real TLB.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use nodeward_lab_counts::FRAME_BYTES;

use crate::memory_map::FrameLocation;

/// Number of entries; a power of two.
const ENTRIES: usize = 4096;
/// Bits of a program's page number: 47 less those within a page.
const PAGE_BITS: u32 = 35;
const COLUMN_SHIFT: u32 = 48;

/// Cached translations of pages. Only one thread uses it.
#[derive(Debug)]
pub struct TranslationCache {
    entries: Vec<CachedTranslation>,
    /// Number of flushes; an entry of another generation is invalid. Never 0, which is the initial
    /// value of entries.
    generation: AtomicU64,
}

#[derive(Debug, Default)]
struct CachedTranslation {
    /// The page and the generation.
    page: AtomicU64,
    packed_location: AtomicU64,
}

impl TranslationCache {
    /// Creates an empty cache.
    pub fn new() -> Self {
        let kept = (0..ENTRIES).map(|_| CachedTranslation::default()).collect();
        Self { entries: kept, generation: AtomicU64::new(1) }
    }

    /// Drops all translations.
    pub fn flush(&self) {
        let next = self.generation.load(Relaxed) + 1;
        if next < 1 << (u64::BITS - PAGE_BITS) {
            self.generation.store(next, Relaxed);
        } else {
            self.entries.iter().for_each(|kept| kept.page.store(0, Relaxed));
            self.generation.store(1, Relaxed);
        }
    }

    /// Returns the place of an address's page (address below 2^47); calls `ask` if it is not
    /// cached.
    pub fn lookup(
        &self,
        address: u64,
        ask: impl FnOnce() -> Option<FrameLocation>,
    ) -> Option<FrameLocation> {
        let page = address / FRAME_BYTES;
        let kept = &self.entries[page as usize % ENTRIES];
        let name = self.generation.load(Relaxed) << PAGE_BITS | page;
        if kept.page.load(Relaxed) == name {
            return Some(unpack(kept.packed_location.load(Relaxed)));
        }
        let place = ask()?;
        kept.page.store(name, Relaxed);
        kept.packed_location.store(pack(place), Relaxed);
        Some(place)
    }
}

fn pack(place: FrameLocation) -> u64 {
    (place.column as u64) << COLUMN_SHIFT | place.row
}

fn unpack(packed: u64) -> FrameLocation {
    let row = packed & ((1 << COLUMN_SHIFT) - 1);
    FrameLocation { row, column: (packed >> COLUMN_SHIFT) as usize }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(row: u64) -> FrameLocation {
        FrameLocation { row, column: 5 }
    }

    /// Goal: a page is asked for once, until all are dropped or another takes its entry.
    #[test]
    fn pages_are_kept_until_dropped() {
        let kept = TranslationCache::new();
        assert_eq!(kept.lookup(0, || None), None);
        assert_eq!(kept.lookup(0x1000, || Some(place(7))), Some(place(7)));
        assert_eq!(kept.lookup(0x1fff, || Some(place(8))), Some(place(7)));
        kept.flush();
        assert_eq!(kept.lookup(0x1000, || Some(place(9))), Some(place(9)));
        // 4096 pages of 4 KiB further is the same entry.
        assert_eq!(kept.lookup(0x1000 + (16 << 20), || Some(place(10))), Some(place(10)));
        assert_eq!(kept.lookup(0x1000, || Some(place(11))), Some(place(11)));
    }

    /// Goal: when generations wrap, no entry of an old one becomes valid.
    #[test]
    fn generations_may_run_out() {
        let kept = TranslationCache::new();
        kept.lookup(0x1000, || Some(place(7)));
        kept.generation.store((1 << 29) - 1, Relaxed); // 64 - 35 bits, the last
        kept.lookup(0x2000, || Some(place(8)));
        kept.flush();
        assert_eq!(kept.lookup(0x1000, || None), None);
        assert_eq!(kept.lookup(0x2000, || None), None);
    }

    /// Goal: the largest row and column are preserved.
    #[test]
    fn places_are_kept_whole() {
        let largest = FrameLocation { row: (1 << 48) - 1, column: 64 };
        assert_eq!(unpack(pack(largest)), largest);
    }
}
