//! Loads and stores: their groups, pairs, literals, exclusive and ordered ones.

use nodeward_model::AccessKind;

use super::addressing::{Addressing, access, change_all, constant_offset, kind};
use super::word::InstructionWord;
use super::{single_register, vector_structures};
use crate::effect::{Effect, MemoryAccess, RegisterNumber, RegisterSum};

/// Decodes a load or store; `None` for an instruction that is not known.
pub fn effect(word: InstructionWord, address: u64) -> Option<Effect> {
    match (word.field(28, 2), word.field(24, 2)) {
        (0b00, 0b00) if word.bit(26) => vector_structures::multiple(word),
        (0b00, 0b01) if word.bit(26) => vector_structures::single(word),
        (0b00, 0b00) => exclusive(word),
        (0b01, 0b00) => literal(word, address),
        (0b01, 0b01) if !word.bit(26) => ordered_unscaled(word),
        (0b10, _) => pair(word),
        (0b11, 0b00 | 0b01) => single_register::effect(word),
        _ => None,
    }
}

/// Exclusive loads and stores, ordered ones, and compare-and-swap.
fn exclusive(word: InstructionWord) -> Option<Effect> {
    let bytes = 1 << word.field(30, 2);
    let (is_ordered, loads, is_pair) = (word.bit(23), word.bit(22), word.bit(21));
    let at_base =
        |bytes, kind| access(word, Addressing::Offset, RegisterSum::default(), bytes, kind);
    let (mut effect, changed) = match (is_ordered, is_pair) {
        (true, true) => (at_base(bytes, AccessKind::Write), [word.register(16), None]),
        (false, true) if !word.bit(31) => {
            // CASP compares two registers of 32 or 64 bits, the second of which follows the first.
            let first = word.field(16, 5);
            let second = (first < 30).then(|| RegisterNumber::new(first + 1));
            let bytes = if word.bit(30) { 16 } else { 8 };
            (at_base(bytes, AccessKind::Write), [word.register(16), second])
        }
        _ => {
            let bytes = if is_pair { 2 * bytes } else { bytes };
            let second = word.register(10).filter(|_| is_pair);
            let status = word.register(16).filter(|_| !is_ordered);
            let loaded = [word.register(0), second];
            (at_base(bytes, kind(loads)), if loads { loaded } else { [status, None] })
        }
    };
    change_all(&mut effect, changed);
    Some(effect)
}

/// LDAPUR and STLUR.
fn ordered_unscaled(word: InstructionWord) -> Option<Effect> {
    if word.bit(21) || word.field(10, 2) != 0 {
        return None;
    }
    let loads = word.field(22, 2) != 0;
    let offset = constant_offset(word.signed_field(12, 9));
    let bytes = 1 << word.field(30, 2);
    let mut effect = access(word, Addressing::Offset, offset, bytes, kind(loads));
    change_all(&mut effect, [word.register(0).filter(|_| loads)]);
    Some(effect)
}

/// Loads relative to the instruction.
fn literal(word: InstructionWord, address: u64) -> Option<Effect> {
    let is_vector = word.bit(26);
    let bytes = match (word.field(30, 2), is_vector) {
        (0b00, _) | (0b10, false) => 4,
        (0b01, _) => 8,
        (0b10, true) => 16,
        (_, false) => return Some(Effect::default()),
        (_, true) => return None,
    };
    let address = address.wrapping_add_signed(word.signed_field(5, 19) * 4);
    let address = RegisterSum::constant(address);
    let mut effect = Effect::default();
    effect.memory[0] = Some(MemoryAccess { address, bytes, kind: AccessKind::Read });
    change_all(&mut effect, [word.register(0).filter(|_| !is_vector)]);
    Some(effect)
}

/// Decodes LDP, STP and the other loads and stores of pairs.
fn pair(word: InstructionWord) -> Option<Effect> {
    let (size, is_vector, loads) = (word.field(30, 2), word.bit(26), word.bit(22));
    let bytes: u32 = match (size, is_vector, loads) {
        (0b11, ..) => return None,
        (size, true, _) => 4 << size,
        (0b00, false, _) | (0b01, false, true) => 4,
        (0b10, false, _) => 8,
        // STGP stores tags, too.
        _ => return None,
    };
    let addressing = match word.field(23, 2) {
        0b01 => Addressing::PostIndex,
        0b11 => Addressing::PreIndex,
        _ => Addressing::Offset,
    };
    let offset = constant_offset(word.signed_field(15, 7) * i64::from(bytes));
    let mut effect = access(word, addressing, offset, 2 * bytes, kind(loads));
    let loaded = [word.register(0), word.register(10)];
    change_all(&mut effect, loaded.into_iter().filter(|_| loads && !is_vector));
    Some(effect)
}
