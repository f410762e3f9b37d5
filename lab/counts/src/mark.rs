//! Marks: instructions without effect, except that the counter recognizes them. Any program may
//! execute one; without a counter nothing happens.
//!
//! A mark is a `nop` with an operand that no compiler writes: 0f 1f 80 and the letters NW, the
//! request, and the slot.

use crate::layout::SELECTABLE_SLOTS;
use crate::sys;

const NOP: [u8; 5] = [0x0f, 0x1f, 0x80, b'N', b'W'];

/// The request of a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Start counting, on all CPUs.
    Start,
    /// Stop counting.
    Stop,
    /// Set all counts to zero, those of frames included.
    Zero,
    /// Count this address space in a slot from now on.
    Attach(u8),
    /// Stop counting it in that slot. Without this, the slot may count a later process that gets
    /// the same page for its page tables.
    Detach(u8),
    /// Also count the accesses of that slot by frame from now on.
    ByFrame(u8),
}

impl Mark {
    fn parts(self) -> (u8, u8) {
        match self {
            Self::Start => (1, 0),
            Self::Stop => (2, 0),
            Self::Zero => (3, 0),
            Self::Attach(slot) => (4, slot),
            Self::Detach(slot) => (5, slot),
            Self::ByFrame(slot) => (6, slot),
        }
    }

    /// Decodes an instruction; `None` if it is not a mark.
    pub fn decode(instruction: &[u8]) -> Option<Self> {
        let &[what, slot] = instruction.strip_prefix(&NOP)? else { return None };
        Self::of_parts(what, slot)
    }

    /// Returns a unique number of the mark.
    pub fn number(self) -> usize {
        let (what, slot) = self.parts();
        usize::from(u16::from_be_bytes([what, slot]))
    }

    /// Returns the mark of a number.
    pub fn of_number(number: usize) -> Option<Self> {
        let [what, slot] = u16::try_from(number).ok()?.to_be_bytes();
        Self::of_parts(what, slot)
    }

    fn of_parts(what: u8, slot: u8) -> Option<Self> {
        let has_slot = SELECTABLE_SLOTS.contains(&usize::from(slot));
        match what {
            1 => Some(Self::Start),
            2 => Some(Self::Stop),
            3 => Some(Self::Zero),
            4 if has_slot => Some(Self::Attach(slot)),
            5 if has_slot => Some(Self::Detach(slot)),
            6 if has_slot => Some(Self::ByFrame(slot)),
            _ => None,
        }
    }
}

/// Executes a mark.
///
/// # Panics
/// If its slot cannot be chosen (see [`SELECTABLE_SLOTS`]).
pub fn mark(mark: Mark) {
    let (what, slot) = mark.parts();
    let has_slot = matches!(mark, Mark::Start | Mark::Stop | Mark::Zero);
    assert!(
        has_slot || SELECTABLE_SLOTS.contains(&usize::from(slot)),
        "slot {slot} cannot be chosen"
    );
    sys::execute(usize::from(what - 1), usize::from(slot));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the counter understands the marks that a program executes.
    #[test]
    fn marks_are_understood() {
        let marks = (1..64).flat_map(|s| [Mark::Attach(s), Mark::Detach(s), Mark::ByFrame(s)]);
        for asked in marks.chain([Mark::Start, Mark::Stop, Mark::Zero]) {
            let (what, slot) = asked.parts();
            #[cfg(target_arch = "x86_64")]
            assert_eq!(
                Mark::decode(&sys::bytes(usize::from(what - 1), usize::from(slot))),
                Some(asked)
            );
            let bytes: Vec<u8> = NOP.into_iter().chain([what, slot]).collect();
            assert_eq!(Mark::decode(&bytes), Some(asked));
            assert_eq!(Mark::of_number(asked.number()), Some(asked));
            mark(asked);
        }
    }

    /// Goal: other instructions are no marks, nor are marks with a slot that cannot be chosen.
    #[test]
    fn anything_else_is_no_mark() {
        let with = |tail: [u8; 2]| NOP.into_iter().chain(tail).collect::<Vec<u8>>();
        for bytes in [vec![], vec![0x90], NOP.to_vec(), with([0, 0]), with([4, 0]), with([4, 64])] {
            assert_eq!(Mark::decode(&bytes), None, "{bytes:x?}");
        }
        assert_eq!(Mark::decode(&[0x0f, 0x1f, 0x80, 0, 0, 0, 0]), None);
    }

    #[test]
    #[should_panic(expected = "slot 64 cannot be chosen")]
    fn a_slot_beyond_is_refused() {
        mark(Mark::Attach(64));
    }
}
