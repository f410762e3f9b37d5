//! Pins that need no lock: a pin is one word.
//!
//! Whoever takes pages out looks at the pins after it has claimed a chunk; whoever pins looks for
//! claims after it has stored the pin. Both put a fence between, so at least one sees the other.
//! Model-checked with the claims, in `tests/chunk_claims_model.rs`.

use std::ops::Range;

use crate::chunk::PIN_SLOTS;
use crate::sync::{AtomicU64, Ordering};

/// Bits of the number of pages in a slot; the first page has the others. A region of the largest
/// address space (2^47 bytes) has 2^35 pages.
const LENGTH_BITS: u32 = 29;

const FREE: u64 = 0;

/// The slots of a region.
pub struct PinSlots([AtomicU64; PIN_SLOTS]);

/// The number of a slot that holds a pin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PinSlot(usize);

impl PinSlots {
    /// Slots without pins.
    pub fn new() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(FREE)))
    }

    /// Stores a pin of at least one page. Returns `None` if all slots are taken or the range is too
    /// long for one.
    pub fn insert(&self, pages: &Range<usize>) -> Option<PinSlot> {
        let pin = pack(pages)?;
        let store = |slot: &AtomicU64| {
            slot.load(Ordering::Relaxed) == FREE
                && slot.compare_exchange(FREE, pin, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        self.0.iter().position(store).map(PinSlot)
    }

    /// Removes a pin.
    pub fn remove(&self, PinSlot(slot): PinSlot) {
        self.0[slot].store(FREE, Ordering::Release);
    }

    /// Returns the pins.
    pub fn pins(&self) -> impl Iterator<Item = Range<usize>> {
        self.0.iter().map(|slot| unpack(slot.load(Ordering::Acquire)))
    }
}

fn pack(pages: &Range<usize>) -> Option<u64> {
    let (first, length) = (pages.start as u64, pages.len() as u64);
    let fits = length < 1 << LENGTH_BITS && first < 1 << (u64::BITS - LENGTH_BITS);
    (fits && length > 0).then_some(first << LENGTH_BITS | length)
}

fn unpack(pin: u64) -> Range<usize> {
    let first = pin >> LENGTH_BITS;
    let length = pin & ((1 << LENGTH_BITS) - 1);
    first as usize..(first + length) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a slot keeps any pin that it takes, at both ends of the largest region, and refuses
    /// what does not fit: 2^29 pages are one bit too many.
    #[test]
    fn pins_fit_into_words() {
        for pages in [0..1, 7..9, (1 << 35) - 1..1 << 35, 5..5 + (1 << 29) - 1] {
            assert_eq!(unpack(pack(&pages).unwrap()), pages);
        }
        assert_eq!(pack(&(0..1 << 29)), None);
        assert_eq!(pack(&(3..3)), None, "nothing is pinned");
    }
}
