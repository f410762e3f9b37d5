//! What one instruction does to memory and to the general registers, alike for all architectures.

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

/// How many of the lowest bits of a register count, 1 to 64, and how they are widened to 64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extension {
    /// By zeros.
    Unsigned(u8),
    /// By the highest of them.
    Signed(u8),
}

impl Extension {
    /// All bits count.
    pub const WHOLE: Self = Self::Unsigned(64);
}

/// A register that is widened, and then shifted left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScaledIndex {
    pub register: RegisterNumber,
    pub extension: Extension,
    /// Below 64.
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
    /// A constant.
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
    /// Its address, from the registers before the instruction.
    pub address: RegisterSum,
    pub bytes: u32,
    pub kind: AccessKind,
}

/// What an instruction does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effect {
    /// What it accesses. No instruction that is understood accesses more.
    pub memory: [Option<MemoryAccess>; 2],
    /// The set of general registers that it changes or may change.
    pub changed: u32,
    /// The one of these whose new value can be told.
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

/// Where the processor goes on after an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlTransfer {
    /// At the next instruction.
    Next,
    /// At this address.
    Jump(u64),
    /// At this address or at the next instruction.
    Branch(u64),
    /// Elsewhere: a call, a return, a register, the kernel.
    Elsewhere,
}

/// Where an instruction is, and where control goes from there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstructionPlace {
    pub start: u64,
    /// The address behind it.
    pub end: u64,
    pub transfer: ControlTransfer,
}
