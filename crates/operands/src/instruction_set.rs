//! The decoders of the architectures behind one interface.

use crate::Architecture;
use crate::aarch64;
use crate::code_window::CodeWindow;
use crate::effect::DecodedInstruction;
use crate::x86::X86Instructions;

/// How instructions are decoded.
#[derive(Debug)]
pub enum InstructionSet {
    X86(X86Instructions),
    Aarch64,
}

impl InstructionSet {
    /// The instructions of an architecture.
    pub fn new(architecture: Architecture) -> Self {
        match architecture {
            Architecture::X86_64 => Self::X86(X86Instructions::default()),
            Architecture::Aarch64 => Self::Aarch64,
        }
    }

    /// Decodes the first instruction of `bytes`, which are at `address`; `None` if there is none
    /// that a program may use, or if it is not known which registers it changes.
    pub fn decode(&mut self, bytes: &[u8], address: u64) -> Option<DecodedInstruction> {
        match self {
            Self::X86(instructions) => instructions.decode(bytes, address),
            Self::Aarch64 => aarch64::decode(bytes, address),
        }
    }

    /// Returns where the instructions before `pc` start, the nearest first.
    pub fn starts_before(&self, window: &CodeWindow, pc: u64) -> Vec<u64> {
        match self {
            Self::X86(_) => crate::x86::starts_before(window, pc),
            Self::Aarch64 => aarch64::starts_before(window, pc),
        }
    }
}
