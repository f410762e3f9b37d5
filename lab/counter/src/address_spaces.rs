//! The table of address spaces by slot. It is part of the file, where readers see it.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use nodeward_lab_counts::{SELECTABLE_SLOTS, SLOTS};

/// The CR3 of each slot's address space; 0 is none. Slot 0 never has one.
#[derive(Clone, Copy, Debug)]
pub struct AddressSpaceTable<'a>(pub &'a [AtomicU64]);

impl AddressSpaceTable<'_> {
    /// Returns the slot of an address space. One without a slot gets the first free slot that
    /// cannot be chosen; if none is left, or the address space is unknown (0), it gets slot 0.
    pub fn slot_of(&self, space: u64) -> usize {
        if space == 0 {
            return 0;
        }
        if let Some(slot) = self.find(1, space) {
            return slot;
        }
        let free = self.find(SELECTABLE_SLOTS.end, 0);
        free.inspect(|&slot| self.0[slot].store(space, Relaxed)).unwrap_or(0)
    }

    /// Assigns a chosen slot to an address space, and frees its other slots.
    pub fn attach(&self, space: u64, slot: usize) {
        while let Some(other) = self.find(1, space) {
            self.0[other].store(0, Relaxed);
        }
        self.0[slot].store(space, Relaxed);
    }

    /// Frees a slot.
    pub fn detach(&self, slot: usize) {
        self.0[slot].store(0, Relaxed);
    }

    fn find(&self, from: usize, space: u64) -> Option<usize> {
        let found = self.0[from..SLOTS].iter().position(|here| here.load(Relaxed) == space);
        found.map(|at| from + at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Vec<AtomicU64> {
        (0..SLOTS).map(|_| AtomicU64::new(0)).collect()
    }

    /// Goal: each address space gets a slot of its own, always the same one; when all are taken the
    /// rest shares slot 0.
    #[test]
    fn everybody_gets_a_slot_while_there_are_some() {
        let words = table();
        let spaces = AddressSpaceTable(&words);
        for round in 0..2 {
            for number in 0..192 {
                // 256 slots less 64
                let slot = spaces.slot_of(0x1000 * (number + 1));
                assert_eq!(slot as u64, 64 + number, "round {round}");
            }
        }
        assert_eq!(spaces.slot_of(0x1000 * 193), 0);
        assert_eq!(spaces.slot_of(0), 0);
    }

    /// Goal: a chosen slot replaces the assigned one, until it is detached.
    #[test]
    fn a_slot_can_be_chosen() {
        let words = table();
        let spaces = AddressSpaceTable(&words);
        assert_eq!(spaces.slot_of(0x5000), 64);
        spaces.attach(0x5000, 3);
        assert_eq!(spaces.slot_of(0x5000), 3);
        assert_eq!(spaces.slot_of(0x6000), 64);
        spaces.attach(0x7000, 3);
        assert_eq!((spaces.slot_of(0x7000), spaces.slot_of(0x5000)), (3, 65));
        spaces.detach(3);
        assert_eq!(spaces.slot_of(0x7000), 66);
    }
}
