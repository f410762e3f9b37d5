//! Sections: parts of a mapping whose pages do not share a lock in the kernel.
//!
//! UFFDIO_MOVE takes the lock of the page's reverse mapping (`anon_vma`, mm/userfaultfd.c) for each
//! page. Lanes that work in one mapping contend for it: with two lanes a page cost 100 ns more.
//! Adjacent mappings share that lock if they could be merged when their first page is touched. So
//! every second section differs in a harmless flag at that moment. Later the kernel cannot merge a
//! section with its neighbours, because their locks differ.

use crate::chunk::CHUNK_BYTES;
use crate::sys::{Advice, AnonMapping};

/// Maximum number of sections of a mapping; each is an entry in /proc/self/maps.
pub const MAX: usize = 16;

/// Splits a mapping of whole chunks into at most `wanted` sections of equal size and returns their
/// number. Touches the first page of each. Must be called before anything else touches the mapping.
pub fn split(mapping: &AnonMapping, wanted: usize) -> usize {
    let chunks = mapping.bytes() / CHUNK_BYTES;
    let count = (1..=wanted).rev().find(|count| chunks.is_multiple_of(*count)).unwrap_or(1);
    let bytes = mapping.bytes() / count;
    let section = |index: usize| index * bytes..(index + 1) * bytes;
    let odd = || (1..count).step_by(2).map(section);
    // If the kernel rejects the flag, the sections stay one: slower, never wrong.
    odd().for_each(|part| drop(mapping.advise(part, Advice::DontDump)));
    for index in 0..count {
        let word = section(index).start / size_of::<u64>();
        mapping.words()[word].store(0, std::sync::atomic::Ordering::Relaxed);
    }
    odd().for_each(|part| drop(mapping.advise(part, Advice::DoDump)));
    count
}
