//! Loads and stores of structures of vectors: LD1 to LD4, ST1 to ST4, LD1R to LD4R.

use super::addressing::{Addressing, access, constant_offset, kind};
use super::word::InstructionWord;
use crate::effect::{Effect, Extension, RegisterSum};

/// Decodes a load or store of whole vector registers.
pub fn multiple(word: InstructionWord) -> Option<Effect> {
    let registers = match word.field(12, 4) {
        0b0000 | 0b0010 => 4,
        0b0100 | 0b0110 => 3,
        0b0111 => 1,
        0b1000 | 0b1010 => 2,
        _ => return None,
    };
    let register_bytes = if word.bit(30) { 16 } else { 8 };
    structure(word, registers * register_bytes)
}

/// Decodes a transfer of one element of each register, or of one element that goes to all of them.
pub fn single(word: InstructionWord) -> Option<Effect> {
    let elements = (word.field(13, 1) << 1 | word.field(21, 1)) + 1;
    let element_bytes = match word.field(14, 2) {
        0b00 => 1,
        0b01 => 2,
        0b10 if word.bit(10) => 8,
        0b10 => 4,
        _ => 1 << word.field(10, 2),
    };
    structure(word, elements * element_bytes)
}

fn structure(word: InstructionWord, bytes: u32) -> Option<Effect> {
    let changes_base = word.bit(23);
    let addressing = if changes_base { Addressing::PostIndex } else { Addressing::Offset };
    let offset = match word.register(16) {
        _ if !changes_base => RegisterSum::default(),
        None => constant_offset(i64::from(bytes)),
        Some(register) => RegisterSum::shifted(register, Extension::WHOLE, 0),
    };
    Some(access(word, addressing, offset, bytes, kind(word.bit(22))))
}
