//! The ring of one event: a page with positions, then 2^n bytes of records that the kernel writes
//! and this process takes.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::own_process::{AreaBacking, MappedArea};
use crate::sys::{PerfAttributes, PerfScope, RING_HEAD_WORD, RING_TAIL_WORD, open_perf_event};

/// The step at which an event or its ring was refused.
#[derive(Debug)]
pub enum RingError {
    /// The event was not opened.
    Event(io::Error),
    /// The memory of the ring was not mapped: EPERM where rings of this user have all they may.
    Memory(io::Error),
}

/// An open event with its ring. Dropping it ends the event.
#[derive(Debug)]
pub struct Ring {
    area: MappedArea,
    /// Where the records begin in the area, in words.
    first_word: usize,
    /// The end of the event when it is dropped.
    _event: OwnedFd,
}

impl Ring {
    /// Opens an event whose ring holds `bytes`, a power of two and at least a page. It runs from
    /// now on.
    pub fn open(event: PerfAttributes, scope: PerfScope, bytes: usize) -> Result<Self, RingError> {
        let page_bytes = rustix::param::page_size();
        let event = open_perf_event(event, scope).map_err(RingError::Event)?;
        let area = MappedArea::map(page_bytes + bytes, AreaBacking::SharedFile(event.as_fd()))
            .map_err(RingError::Memory)?;
        Ok(Self { area, first_word: page_bytes / size_of::<u64>(), _event: event })
    }

    /// Appends the words of all records that are complete, and frees their room in the ring.
    /// Returns false if the positions make no sense; then nothing is appended.
    pub fn take(&mut self, into: &mut Vec<u64>) -> bool {
        let (positions, data) = self.area.words().split_at(self.first_word);
        // The kernel has written the records before it moves the head.
        let head = positions[RING_HEAD_WORD].load(Acquire);
        let tail = positions[RING_TAIL_WORD].load(Relaxed);
        let is_sound = copy(data, tail, head, into);
        // The records have been read before the kernel may overwrite them.
        positions[RING_TAIL_WORD].store(head, Release);
        is_sound
    }
}

/// Appends the words between two positions, in bytes since the ring began, oldest first. Returns
/// false, and appends nothing, if they are further apart than the ring is long.
fn copy(data: &[AtomicU64], tail: u64, head: u64, into: &mut Vec<u64>) -> bool {
    let word_bytes = size_of::<u64>() as u64;
    let words = head.wrapping_sub(tail) / word_bytes;
    let is_sound = (head | tail).is_multiple_of(word_bytes) && words <= data.len() as u64;
    if is_sound && words > 0 {
        let start = (tail / word_bytes) as usize % data.len();
        let (before, after) = (&data[start..], &data[..start]);
        let wrapped = before.iter().chain(after).take(words as usize);
        into.extend(wrapped.map(|word| word.load(Relaxed)));
    }
    is_sound
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copied(tail: u64, head: u64) -> Option<Vec<u64>> {
        let data: Vec<_> = (0..4).map(AtomicU64::new).collect();
        let mut words = Vec::new();
        copy(&data, tail, head, &mut words).then_some(words)
    }

    /// Goal: what lies between the positions is copied once and in order, also around the end of a
    /// ring of 4 words (32 bytes): positions 40 and 64 are words 5 to 7, which lie at 1 to 3.
    #[test]
    fn words_are_copied_in_their_order() {
        for (tail, head, words) in [
            (0, 0, &[][..]),
            (0, 16, &[0, 1]),
            (40, 64, &[1, 2, 3]),
            (24, 56, &[3, 0, 1, 2]),
            (u64::MAX - 7, 8, &[3, 0]),
        ] {
            assert_eq!(copied(tail, head).as_deref(), Some(words), "{tail} {head}");
        }
    }

    /// Goal: positions that are too far apart, that run backwards, or that are no whole words are
    /// refused.
    #[test]
    fn impossible_positions_are_refused() {
        for (tail, head) in [(0, 40), (16, 8), (0, 12), (4, 8), (4, 12)] {
            assert_eq!(copied(tail, head), None, "{tail} {head}");
        }
    }
}
