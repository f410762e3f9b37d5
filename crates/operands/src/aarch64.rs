//! The A64 instructions of Arm (Arm Architecture Reference Manual, DDI 0487, chapter C4).
//!
//! Loads and stores of general and of vector registers give operands: all addressing modes, pairs,
//! exclusive and ordered ones, atomic operations, structures of vectors, and DC ZVA. Prefetches
//! access nothing. Of SVE, SME, MOPS, memory tags and what is newer nothing is understood: such an
//! instruction is none, so that nobody goes over it. Nor are loads with pointer authentication, but
//! it is known what they change.
//!
//! This was tested with code that compilers made, in an emulator, and not on an Arm machine.

mod addressing;
mod branches;
mod data_processing;
mod loads_stores;
mod single_register;
mod vector_structures;
mod word;

use crate::code_window::CodeWindow;
use crate::effect::{ControlTransfer, DecodedInstruction, Effect};
use word::InstructionWord;

/// Each instruction has this many bytes.
const INSTRUCTION_BYTES: u64 = 4;

/// Decodes the first instruction of `bytes`; `None` if it is not known what it changes.
pub fn decode(bytes: &[u8], address: u64) -> Option<DecodedInstruction> {
    let word = InstructionWord(u32::from_le_bytes(*bytes.first_chunk()?));
    let (transfer, effect) = match word.field(25, 4) {
        0b0100 | 0b0110 | 0b1100 | 0b1110 => next(loads_stores::effect(word, address)?),
        0b1000 | 0b1001 => next(data_processing::immediate(word, address)),
        0b0101 | 0b1101 => next(data_processing::register(word)),
        0b0111 | 0b1111 => next(data_processing::vector(word)),
        0b1010 | 0b1011 => branches::decode(word, address)?,
        _ => return None,
    };
    let end = address.wrapping_add(INSTRUCTION_BYTES);
    Some(DecodedInstruction { start: address, end, transfer, effect })
}

fn next(effect: Effect) -> (ControlTransfer, Effect) {
    (ControlTransfer::Next, effect)
}

/// Returns the starts of the instructions before `pc`, the nearest first.
pub fn starts_before(window: &CodeWindow, pc: u64) -> Vec<u64> {
    let start = window.start();
    let before = |end: &u64| end.checked_sub(INSTRUCTION_BYTES).filter(|&at| at >= start);
    std::iter::successors(before(&pc), before).collect()
}
