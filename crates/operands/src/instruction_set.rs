//! One interface to the decoders of the architectures.

use crate::code_window::CodeWindow;
use crate::effect::{Effect, InstructionPlace};
use crate::x86::X86Instructions;
use crate::{Architecture, aarch64, x86};

/// The decoder of one architecture.
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

    /// Returns where the first instruction of `bytes` is, which are at `address`; `None` if there
    /// is none that a program may use, or if it is not known which registers it changes.
    pub fn place(&self, bytes: &[u8], address: u64) -> Option<InstructionPlace> {
        match self {
            Self::X86(_) => x86::place(bytes, address),
            Self::Aarch64 => aarch64::decode(bytes, address).map(|(place, _)| place),
        }
    }

    /// Returns what that instruction does, too.
    pub fn decode(&mut self, bytes: &[u8], address: u64) -> Option<(InstructionPlace, Effect)> {
        match self {
            Self::X86(instructions) => instructions.decode(bytes, address),
            Self::Aarch64 => aarch64::decode(bytes, address),
        }
    }

    /// Returns where the instructions before `pc` start, the nearest first.
    pub fn starts_before(&self, window: &CodeWindow, pc: u64) -> Vec<u64> {
        match self {
            Self::X86(_) => x86::starts_before(window, pc),
            Self::Aarch64 => aarch64::starts_before(window, pc),
        }
    }
}
