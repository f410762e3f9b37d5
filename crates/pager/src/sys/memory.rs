//! The content of free pages of a mapping, and the node that its pages come from.

use std::arch::asm;
use std::io;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use nodeward_linux::mempolicy;
use nodeward_model::NodeId;

use super::mapping::AnonMapping;

/// The content of free pages in debug builds. Read as a pointer it faults, at any alignment: x86-64
/// refuses it, because the top byte is neither 00 nor ff; for aarch64, which ignores the top byte,
/// bit 55 makes it a kernel address.
const POISON: u64 = 0xF4EE_F4EE_F4EE_F4EE;

impl AnonMapping {
    /// Fills a part, in bytes from the start, with zeros.
    ///
    /// The caller must have exclusive use of the part, as the pool has of pages between the time
    /// that they leave a list and the time that they are handed out.
    pub fn zero(&self, part: Range<usize>) {
        assert!(part.start <= part.end && part.end <= self.bytes(), "inside the mapping");
        let start = (self.start() + part.start as u64) as *mut u8;
        // SAFETY: the part is inside this mapping, which is writable until `self` is dropped; zeros
        // are valid values of everything that we keep in it; the caller guarantees that no other
        // thread reads or writes the part meanwhile.
        unsafe { start.write_bytes(0, part.len()) };
    }

    /// Fills a part, in bytes from the start and of whole words, with the poison pattern.
    pub fn poison(&self, part: Range<usize>) {
        self.words_of(part).iter().for_each(|word| word.store(POISON, Ordering::Relaxed));
    }

    /// Returns the byte offset, in the mapping, of the first word that was written since the part
    /// was poisoned.
    pub fn written_since_poisoned(&self, part: Range<usize>) -> Option<usize> {
        let words = self.words_of(part.clone());
        let written = words.iter().position(|word| word.load(Ordering::Relaxed) != POISON);
        written.map(|word| part.start + word * size_of::<u64>())
    }

    fn words_of(&self, part: Range<usize>) -> &[AtomicU64] {
        &self.words()[part.start / size_of::<u64>()..part.end / size_of::<u64>()]
    }

    /// Makes pages of a part that are first touched from now on come from `node`, as long as it has
    /// room. Pages that are present stay where they are.
    ///
    /// # Errors
    /// `InvalidInput` if the node does not exist or the cpuset forbids it; `Unsupported` if the
    /// kernel has no NUMA support (CONFIG_NUMA).
    pub fn prefer_node(&self, part: Range<usize>, node: NodeId) -> io::Result<()> {
        assert!(part.start <= part.end && part.end <= self.bytes(), "inside the mapping");
        let address = |byte: usize| self.start() + byte as u64;
        mempolicy::prefer_memory_at(address(part.start)..address(part.end), node)
    }
}

/// Prefetches the cache line at an address for writing. A hint: it changes no memory, and unmapped
/// addresses are harmless.
#[inline]
pub fn prefetch(address: NonNull<u8>) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint that neither faults nor changes memory or registers.
    unsafe {
        asm!("prefetchw [{}]", in(reg) address.as_ptr(), options(nostack, preserves_flags));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        asm!("prfm pstl1keep, [{}]", in(reg) address.as_ptr(), options(nostack, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = address;
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: usize = 4096;

    /// A mapping of four pages with all bits set.
    fn pages() -> AnonMapping {
        let mapping = AnonMapping::reserve(4 * PAGE, PAGE).unwrap();
        mapping.words().iter().for_each(|word| word.store(u64::MAX, Ordering::Relaxed));
        mapping
    }

    fn holds(mapping: &AnonMapping, page: usize, value: u64) -> bool {
        let words = &mapping.words()[page * 512..(page + 1) * 512]; // 4096 / 8 words
        words.iter().all(|word| word.load(Ordering::Relaxed) == value)
    }

    /// Goal: zeros fill exactly the part.
    #[test]
    fn zeros_stay_inside() {
        let mapping = pages();
        mapping.zero(PAGE..3 * PAGE);
        let zero = [0, 1, 2, 3].map(|page| holds(&mapping, page, 0));
        assert_eq!(zero, [false, true, true, false]);
        assert!(holds(&mapping, 0, u64::MAX) && holds(&mapping, 3, u64::MAX));
    }

    /// Goal: nothing beyond the end is written.
    #[test]
    #[should_panic(expected = "inside the mapping")]
    fn zeros_beyond_the_end_are_refused() {
        pages().zero(3 * PAGE..5 * PAGE);
    }

    /// Goal: one changed bit is found, in the first word as in the last, and its word's address
    /// returned.
    #[test]
    fn a_write_to_poisoned_pages_is_found() {
        let mapping = pages();
        mapping.poison(PAGE..3 * PAGE);
        assert_eq!(mapping.written_since_poisoned(PAGE..3 * PAGE), None);
        assert_eq!(mapping.written_since_poisoned(0..PAGE), Some(0));
        assert!(holds(&mapping, 0, u64::MAX) && holds(&mapping, 3, u64::MAX));
        for byte in [3 * PAGE - 8, PAGE] {
            mapping.words()[byte / 8].fetch_xor(1, Ordering::Relaxed);
            assert_eq!(mapping.written_since_poisoned(PAGE..3 * PAGE), Some(byte));
        }
    }

    /// Goal: the pattern, read at any alignment, is no valid address of a program.
    #[test]
    fn the_pattern_is_no_pointer() {
        for shift in (0..64).step_by(8) {
            let pointer = POISON.rotate_left(shift);
            let top = pointer >> 56;
            assert!(top != 0 && top != 0xff && pointer >> 55 & 1 == 1, "{pointer:x}");
        }
    }

    /// Goal: the kernel accepts node 0 for a part, and reports a node that does not exist, or that
    /// it has no NUMA support.
    #[test]
    fn the_kernel_takes_the_node() {
        let mapping = pages();
        let done = mapping.prefer_node(PAGE..3 * PAGE, NodeId(0));
        if done.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::Unsupported) {
            eprintln!("skipped: this kernel has no memory nodes");
            return;
        }
        done.unwrap();
        let maps = std::fs::read_to_string("/proc/self/numa_maps").unwrap();
        let line = format!("{:x} prefer:0 ", mapping.start() as usize + PAGE);
        assert!(maps.contains(&line), "{maps}");
        let missing = mapping.prefer_node(0..PAGE, NodeId(1023)).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::InvalidInput);
    }
}
