//! The effect of one instruction on memory and on the general registers, alike for all
//! architectures.

use nodeward_model::AccessKind;

/// The number of a general register, below 32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegisterNumber(u8);

impl RegisterNumber {
    /// Returns the register of this number; only the lowest five bits count.
    pub fn new(number: u32) -> Self {
        Self((number & 31) as u8)
    }

    /// Returns the place in [`Registers::general`](crate::Registers::general).
    pub fn index(self) -> usize {
        usize::from(self.0)
    }

    /// Returns the bit that stands for the register in a set.
    pub fn bit(self) -> u32 {
        1 << self.0
    }
}

/// The number of the lowest bits of a register that count, 1 to 64, and the way in which they are
/// widened to 64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extension {
    /// The upper bits become zero.
    Unsigned(u8),
    /// The upper bits become copies of the highest bit that counts.
    Signed(u8),
}

impl Extension {
    /// All 64 bits of the register.
    pub const WHOLE: Self = Self::Unsigned(64);
}

/// A register that is widened, and then shifted left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScaledIndex {
    pub register: RegisterNumber,
    pub extension: Extension,
    /// The number of bits by which the value is shifted left, below 64.
    pub shift: u8,
}

/// A wrapping sum of registers and a constant: an address, or a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RegisterSum {
    pub base: Option<RegisterNumber>,
    pub index: Option<ScaledIndex>,
    pub constant: u64,
}

impl RegisterSum {
    /// Returns a sum that is a constant alone.
    pub fn constant(constant: u64) -> Self {
        Self { constant, ..Self::default() }
    }

    /// A register and a constant.
    pub fn offset(base: RegisterNumber, constant: u64) -> Self {
        Self { base: Some(base), index: None, constant }
    }

    /// A register that is widened and shifted.
    pub fn shifted(register: RegisterNumber, extension: Extension, shift: u8) -> Self {
        let index = ScaledIndex { register, extension, shift };
        Self { index: Some(index), ..Self::default() }
    }
}

/// An operation of two values other than a sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BinaryOperation {
    And,
    Or,
    Xor,
    Subtract,
    Multiply,
    ShiftLeft,
    ShiftRight,
}

/// A value that an instruction computes from registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ComputedValue {
    Sum(RegisterSum),
    /// The register is the left side.
    Binary(BinaryOperation, RegisterNumber, RegisterSum),
}

/// The new value of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegisterUpdate {
    pub register: RegisterNumber,
    pub value: ComputedValue,
    /// The operation takes and leaves only the lower 32 bits; the upper ones become zero.
    pub narrow: bool,
}

/// A part of memory that an instruction accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryAccess {
    /// The address, as a sum of registers before the instruction.
    pub address: RegisterSum,
    pub bytes: u32,
    pub kind: AccessKind,
}

/// The effect of an instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effect {
    /// The memory that the instruction accesses. No instruction that is understood accesses more
    /// than two places.
    pub memory: [Option<MemoryAccess>; 2],
    /// The set of general registers that the instruction changes or may change.
    pub changed: u32,
    /// The changed register whose new value can be told, if any.
    pub update: Option<RegisterUpdate>,
}

impl Effect {
    /// Enters that a register changes.
    pub fn change(&mut self, register: RegisterNumber) {
        self.changed |= register.bit();
    }

    /// Enters that a register gets this value.
    pub fn set(&mut self, update: RegisterUpdate) {
        self.change(update.register);
        self.update = Some(update);
    }
}

/// The place at which the processor goes on after an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlTransfer {
    /// The next instruction.
    Next,
    /// The address that the instruction names.
    Jump(u64),
    /// This address or the next instruction.
    Branch(u64),
    /// Elsewhere: a call, a return, a register, the kernel.
    Elsewhere,
}

/// An instruction's addresses, and the place at which control goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstructionPlace {
    pub start: u64,
    /// The address behind the instruction.
    pub end: u64,
    pub transfer: ControlTransfer,
}
