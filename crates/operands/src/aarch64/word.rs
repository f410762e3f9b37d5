//! Fields of an instruction word.

use crate::effect::RegisterNumber;

/// The four bytes of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstructionWord(pub u32);

/// Number 31, which means the stack pointer or zero.
const SPECIAL: u32 = 31;

impl InstructionWord {
    /// Returns the field of `width` bits (below 32) whose lowest bit is `low`.
    pub fn field(self, low: u32, width: u32) -> u32 {
        self.0 >> low & ((1 << width) - 1)
    }

    /// Returns a field as a signed number.
    pub fn signed_field(self, low: u32, width: u32) -> i64 {
        let unused = 64 - width;
        i64::from(self.field(low, width)) << unused >> unused
    }

    /// Returns whether the bit with this number is 1.
    pub fn bit(self, number: u32) -> bool {
        self.field(number, 1) == 1
    }

    /// Returns whether the bits of `mask` have this value.
    pub fn matches(self, mask: u32, value: u32) -> bool {
        self.0 & mask == value
    }

    /// Returns the register whose number is at `low`, where 31 is the stack pointer.
    pub fn register_or_sp(self, low: u32) -> RegisterNumber {
        RegisterNumber::new(self.field(low, 5))
    }

    /// Returns the register whose number is at `low`; `None` for 31, which is zero when it is read
    /// and nothing when it is written.
    pub fn register(self, low: u32) -> Option<RegisterNumber> {
        let number = self.field(low, 5);
        (number != SPECIAL).then(|| RegisterNumber::new(number))
    }
}
