//! Loads and stores of one register, and atomic operations.

use nodeward_model::AccessKind;

use super::addressing::{Addressing, BASE, access, change_all, constant_offset, kind};
use super::data_processing::extended_register;
use super::word::InstructionWord;
use crate::effect::{Effect, RegisterSum};

/// The transfer of a load or store of one register.
struct RegisterTransfer {
    /// 2 to this power is the number of bytes.
    size: u32,
    loads: bool,
    /// True for a general register, false for a vector register.
    is_general: bool,
}

/// Decodes an instruction of this group; `None` if it is not known.
pub fn effect(word: InstructionWord) -> Option<Effect> {
    let has_register = !word.bit(24) && word.bit(21);
    match word.field(10, 2) {
        0b00 if has_register => atomic(word),
        0b01 | 0b11 if has_register => authenticated(word),
        _ if is_prefetch(word) => Some(Effect::default()),
        _ => plain(word, has_register),
    }
}

/// PRFM and PRFUM. There is none with a changed base.
fn is_prefetch(word: InstructionWord) -> bool {
    word.matches(0xc4c0_0000, 0xc080_0000)
}

fn plain(word: InstructionWord, has_register: bool) -> Option<Effect> {
    let transfer = transfer(word)?;
    let (addressing, offset) = if word.bit(24) {
        (Addressing::Offset, constant_offset(i64::from(word.field(10, 12)) << transfer.size))
    } else if has_register {
        (Addressing::Offset, register_offset(word, transfer.size)?)
    } else {
        (unscaled_addressing(word), constant_offset(word.signed_field(12, 9)))
    };
    let (bytes, is_loaded) = (1 << transfer.size, transfer.loads && transfer.is_general);
    let mut effect = access(word, addressing, offset, bytes, kind(transfer.loads));
    change_all(&mut effect, [word.register(0).filter(|_| is_loaded)]);
    Some(effect)
}

fn transfer(word: InstructionWord) -> Option<RegisterTransfer> {
    let (size, operation, is_general) = (word.field(30, 2), word.field(22, 2), !word.bit(26));
    match (operation, is_general) {
        (0b10 | 0b11, false) if size == 0 => {
            Some(RegisterTransfer { size: 4, loads: operation == 0b11, is_general })
        }
        (0b10 | 0b11, false) => None,
        (0b11, true) if size > 1 => None,
        _ => Some(RegisterTransfer { size, loads: operation != 0b00, is_general }),
    }
}

/// An offset of nine bits that is added before, after, or for this access alone.
fn unscaled_addressing(word: InstructionWord) -> Addressing {
    match word.field(10, 2) {
        0b01 => Addressing::PostIndex,
        0b11 => Addressing::PreIndex,
        _ => Addressing::Offset,
    }
}

fn register_offset(word: InstructionWord, size: u32) -> Option<RegisterSum> {
    let shift = if word.bit(12) { size as u8 } else { 0 };
    let index = extended_register(word, shift);
    // Bytes and half words are no offsets.
    word.bit(14).then_some(RegisterSum { index, ..RegisterSum::default() })
}

/// Decodes LDADD and the like, SWP, and LDAPR.
fn atomic(word: InstructionWord) -> Option<Effect> {
    let is_plain_load = word.field(12, 4) == 0b1100;
    let is_operation = word.field(12, 4) <= 0b1000;
    if word.bit(26) || !(is_plain_load || is_operation) {
        return None;
    }
    let kind = if is_plain_load { AccessKind::Read } else { AccessKind::Write };
    let bytes = 1 << word.field(30, 2);
    let mut effect = access(word, Addressing::Offset, RegisterSum::default(), bytes, kind);
    change_all(&mut effect, [word.register(0)]);
    Some(effect)
}

/// LDRAA and LDRAB. Their address is not told, because it is signed.
fn authenticated(word: InstructionWord) -> Option<Effect> {
    if word.field(30, 2) != 0b11 || word.bit(26) {
        return None;
    }
    let mut effect = Effect::default();
    let base = word.register_or_sp(BASE);
    change_all(&mut effect, [word.register(0), Some(base).filter(|_| word.bit(11))]);
    Some(effect)
}
