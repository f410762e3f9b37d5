//! What is written into free pages of a mapping, and the node that its pages come from.

use std::arch::asm;
use std::io;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use nodeward_linux::policy;
use nodeward_model::NodeId;

use super::Mapping;

/// What free pages hold in debug builds. Read as a pointer it faults, at any alignment: x86-64
/// refuses it, because the top byte is neither 00 nor ff, and for aarch64, which ignores the top
/// byte, bit 55 makes it an address of the kernel.
const POISON: u64 = 0xF4EE_F4EE_F4EE_F4EE;

impl Mapping {
    /// Fills a part, in bytes from the start, with zeros.
    ///
    /// Only for who has the part alone, as the pool has pages from the moment that they leave a
    /// list until they are handed out.
    pub fn zero(&self, part: Range<usize>) {
        assert!(part.start <= part.end && part.end <= self.bytes(), "inside the mapping");
        let start = (self.start() + part.start as u64) as *mut u8;
        // SAFETY: the part is inside this mapping, which is writable until `self` is dropped; zeros
        // are a value of all that we keep in it; nobody else reads or writes the part meanwhile, as
        // the caller must see to.
        unsafe { start.write_bytes(0, part.len()) };
    }

    /// Fills a part, in bytes from the start and whole words, with what no program writes.
    pub fn poison(&self, part: Range<usize>) {
        self.words_of(part).iter().for_each(|word| word.store(POISON, Ordering::Relaxed));
    }

    /// The first byte, from the start of the mapping, that was written since the part was poisoned;
    /// to the word.
    pub fn written_since_poisoned(&self, part: Range<usize>) -> Option<usize> {
        let words = self.words_of(part.clone());
        let written = words.iter().position(|word| word.load(Ordering::Relaxed) != POISON);
        written.map(|word| part.start + word * size_of::<u64>())
    }

    fn words_of(&self, part: Range<usize>) -> &[AtomicU64] {
        &self.words()[part.start / size_of::<u64>()..part.end / size_of::<u64>()]
    }

    /// Pages of a part that are touched from now on come from `node` as long as it has room. Pages
    /// that are there stay where they are.
    ///
    /// # Errors
    /// `InvalidInput` if the node does not exist or the cpuset forbids it; `Unsupported` where the
    /// kernel knows no nodes (CONFIG_NUMA).
    pub fn prefer(&self, part: Range<usize>, node: NodeId) -> io::Result<()> {
        assert!(part.start <= part.end && part.end <= self.bytes(), "inside the mapping");
        let address = |byte: usize| self.start() + byte as u64;
        policy::prefer_memory_at(address(part.start)..address(part.end), node)
    }
}

/// Has the CPU fetch what is at an address, to be written soon. A hint: it changes nothing, and
/// addresses where nothing is do no harm.
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

    /// Four pages of one byte.
    fn pages() -> Mapping {
        let mapping = Mapping::reserve(4 * PAGE, PAGE).unwrap();
        mapping.words().iter().for_each(|word| word.store(u64::MAX, Ordering::Relaxed));
        mapping
    }

    fn holds(mapping: &Mapping, page: usize, value: u64) -> bool {
        let words = &mapping.words()[page * 512..(page + 1) * 512]; // 4096 / 8 words
        words.iter().all(|word| word.load(Ordering::Relaxed) == value)
    }

    /// Goal: zeros fill the part and nothing beside it.
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

    /// Goal: one changed bit is found, in the first word as in the last, and told with its place.
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

    /// Goal: no address of a program lies behind the pattern, wherever one begins to read it.
    #[test]
    fn the_pattern_is_no_pointer() {
        for shift in (0..64).step_by(8) {
            let pointer = POISON.rotate_left(shift);
            let top = pointer >> 56;
            assert!(top != 0 && top != 0xff && pointer >> 55 & 1 == 1, "{pointer:x}");
        }
    }

    /// Goal: the kernel takes node 0 for a part, and a node that is not there is told. Where there
    /// are no nodes that is told, too.
    #[test]
    fn the_kernel_takes_the_node() {
        let mapping = pages();
        let done = mapping.prefer(PAGE..3 * PAGE, NodeId(0));
        if done.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::Unsupported) {
            eprintln!("skipped: this kernel has no memory nodes");
            return;
        }
        done.unwrap();
        let maps = std::fs::read_to_string("/proc/self/numa_maps").unwrap();
        let line = format!("{:x} prefer:0 ", mapping.start() as usize + PAGE);
        assert!(maps.contains(&line), "{maps}");
        let missing = mapping.prefer(0..PAGE, NodeId(1023)).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::InvalidInput);
    }
}
