//! The types that a sampler gives to the decoder and gets from it.

use nodeward_model::AccessKind;

use crate::Architecture;

/// Registers of a thread before the instruction at `pc` runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registers {
    /// The address of the next instruction.
    pub pc: u64,
    /// The general registers by number. x86-64, in the order of their encoding: rax, rcx, rdx, rbx,
    /// rsp, rbp, rsi, rdi, r8 to r15. aarch64: x0 to x30, then the stack pointer.
    pub general: [u64; 32],
}

impl Registers {
    /// Returns the stack pointer.
    #[must_use]
    pub fn stack_pointer(&self, architecture: Architecture) -> u64 {
        match architecture {
            Architecture::X86_64 => self.general[4],
            Architecture::Aarch64 => self.general[31],
        }
    }
}

/// Reads memory of the sampled process.
pub trait CodeReader {
    /// Fills the front of `into` with what is at `address`; returns the number of bytes read, 0 if
    /// nothing is mapped there.
    fn read(&mut self, address: u64, into: &mut [u8]) -> usize;
}

/// Memory that an instruction accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operand {
    /// The address of the first byte, in the half of the address space that programs have.
    pub address: u64,
    /// Number of accessed bytes, as far as the instruction tells it; at least 1.
    pub bytes: u32,
    /// The way in which the instruction accesses the memory.
    pub kind: AccessKind,
    /// The instruction, by its distance in instructions from `pc`. 0 is the one at `pc`, -1 the one
    /// before it, and 1 the one after it.
    pub position: i8,
}
