//! Instructions that compute. The result of moves, sums and shifts by constants is told; of others
//! only which register they change. Some that change none count as if they did.

use super::word::InstructionWord;
use crate::effect::{
    BinaryOperation, ComputedValue, Effect, Extension, RegisterNumber, RegisterSum, RegisterUpdate,
    ScaledIndex,
};

/// Data processing with an immediate value.
pub fn immediate(word: InstructionWord, address: u64) -> Effect {
    let narrow = !word.bit(31);
    match word.field(23, 3) {
        0b000 | 0b001 => {
            let sum = RegisterSum::constant(relative_address(word, address));
            result(word.register(0), false, Some(ComputedValue::Sum(sum)))
        }
        0b010 => result(sum_target(word), narrow, Some(sum_with_immediate(word))),
        0b011 => result(Some(word.register_or_sp(0)), false, None),
        0b100 => result(logical_target(word), narrow, logical_with_immediate(word)),
        0b101 => result(word.register(0), narrow, moved_immediate(word)),
        0b110 => result(word.register(0), narrow, shifted_bits(word)),
        _ => result(word.register(0), narrow, None),
    }
}

/// Data processing of registers.
pub fn register(word: InstructionWord) -> Effect {
    let narrow = !word.bit(31);
    match (word.bit(28), word.bit(24), word.bit(21)) {
        (false, false, _) => result(word.register(0), narrow, logical(word)),
        (false, true, false) => result(word.register(0), narrow, sum_with_shifted(word)),
        (false, true, true) => result(sum_target(word), narrow, sum_with_extended(word)),
        (true, true, _) => result(word.register(0), narrow, product(word)),
        // IRG makes a tagged pointer, which may be the stack's.
        (true, false, _) if word.matches(0xffe0_fc00, 0x9ac0_1000) => {
            result(Some(word.register_or_sp(0)), narrow, None)
        }
        (true, false, _) => result(word.register(0), narrow, None),
    }
}

/// Vectors and floating point. Only moves and conversions to general registers change those.
pub fn vector(word: InstructionWord) -> Effect {
    let converts = word.matches(0x7f20_fc00, 0x1e20_0000) || word.matches(0x7f20_0000, 0x1e00_0000);
    let moves = word.matches(0xbfe0_fc00, 0x0e00_2c00) || word.matches(0xbfe0_fc00, 0x0e00_3c00);
    result(word.register(0).filter(|_| converts || moves), false, None)
}

/// The effect of a result that goes to a register, or to none.
fn result(target: Option<RegisterNumber>, narrow: bool, value: Option<ComputedValue>) -> Effect {
    let mut effect = Effect::default();
    match (target, value) {
        (Some(register), Some(value)) => effect.set(RegisterUpdate { register, value, narrow }),
        (Some(register), None) => effect.change(register),
        (None, _) => {}
    }
    effect
}

/// Returns the address that ADR or ADRP computes.
fn relative_address(word: InstructionWord, address: u64) -> u64 {
    let offset = word.signed_field(5, 19) << 2 | i64::from(word.field(29, 2));
    match word.bit(31) {
        false => address.wrapping_add_signed(offset),
        true => (address >> 12 << 12).wrapping_add_signed(offset << 12),
    }
}

/// The target of a sum: the stack pointer, or nothing if flags are set.
fn sum_target(word: InstructionWord) -> Option<RegisterNumber> {
    if word.bit(29) { word.register(0) } else { Some(word.register_or_sp(0)) }
}

/// The target of a logical operation with an immediate value: only ANDS sets flags.
fn logical_target(word: InstructionWord) -> Option<RegisterNumber> {
    if word.field(29, 2) == 0b11 { word.register(0) } else { Some(word.register_or_sp(0)) }
}

fn sum_with_immediate(word: InstructionWord) -> ComputedValue {
    let shift = if word.bit(22) { 12 } else { 0 };
    let added = u64::from(word.field(10, 12)) << shift;
    let constant = if word.bit(30) { added.wrapping_neg() } else { added };
    ComputedValue::Sum(RegisterSum::offset(word.register_or_sp(5), constant))
}

/// MOVZ and MOVN. MOVK keeps a part of what was there.
fn moved_immediate(word: InstructionWord) -> Option<ComputedValue> {
    let value = u64::from(word.field(5, 16)) << (word.field(21, 2) * 16);
    let constant = match word.field(29, 2) {
        0b00 => !value,
        0b10 => value,
        _ => return None,
    };
    Some(ComputedValue::Sum(RegisterSum::constant(constant)))
}

/// SBFM and UBFM, where they shift right, or widen some of the lowest bits and shift them left.
fn shifted_bits(word: InstructionWord) -> Option<ComputedValue> {
    let register = word.register(5)?;
    let top = if word.bit(31) { 63 } else { 31 };
    let (rotated, last) = (word.field(16, 6), word.field(10, 6));
    let extension: fn(u8) -> Extension = match word.field(29, 2) {
        0b00 => Extension::Signed,
        0b10 if last == top => {
            let count = RegisterSum::constant(u64::from(rotated));
            return Some(ComputedValue::Binary(BinaryOperation::ShiftRight, register, count));
        }
        0b10 => Extension::Unsigned,
        _ => return None,
    };
    let shift = if rotated == 0 { 0 } else { (top + 1).checked_sub(rotated)? };
    let is_left = rotated == 0 || last < rotated;
    let extension = extension(last as u8 + 1);
    let sum = RegisterSum::shifted(register, extension, shift as u8);
    is_left.then_some(ComputedValue::Sum(sum))
}

fn logical_with_immediate(word: InstructionWord) -> Option<ComputedValue> {
    let right = RegisterSum::constant(repeated_bits(word)?);
    let Some(left) = word.register(5) else {
        // ORR with the zero register loads the constant.
        return (word.field(29, 2) == 0b01).then_some(ComputedValue::Sum(right));
    };
    Some(ComputedValue::Binary(logical_operation(word), left, right))
}

/// The constant of a logical operation: a run of ones, rotated, in elements that repeat.
fn repeated_bits(word: InstructionWord) -> Option<u64> {
    let (rotated, last) = (word.field(16, 6), word.field(10, 6));
    let element_bits = 1 << (word.field(22, 1) << 6 | !last & 0x3f).checked_ilog2()?;
    let ones = last % element_bits + 1;
    if ones == element_bits {
        return None;
    }
    let run = u64::MAX >> (64 - ones);
    let all = (0..64 / element_bits).fold(0, |all, at| all | run << (at * element_bits));
    Some(all.rotate_right(rotated % element_bits))
}

fn logical_operation(word: InstructionWord) -> BinaryOperation {
    match word.field(29, 2) {
        0b01 => BinaryOperation::Or,
        0b10 => BinaryOperation::Xor,
        _ => BinaryOperation::And,
    }
}

/// ORR with the zero register, which is how registers are copied, and AND, ORR, EOR of two.
fn logical(word: InstructionWord) -> Option<ComputedValue> {
    let is_plain = !word.bit(21) && word.field(22, 2) == 0;
    let right = shifted_register(word).filter(|_| is_plain)?;
    let operation = logical_operation(word);
    match word.register(5) {
        Some(left) => Some(ComputedValue::Binary(operation, left, right)),
        None if operation == BinaryOperation::And => None,
        None => Some(ComputedValue::Sum(right)),
    }
}

/// The second register of an operation, shifted left; the zero register is no register.
fn shifted_register(word: InstructionWord) -> Option<RegisterSum> {
    let shift = word.field(10, 6) as u8;
    Some(match word.register(16) {
        None => RegisterSum::default(),
        // As a base, a copy can be undone.
        Some(register) if shift == 0 => RegisterSum::offset(register, 0),
        Some(register) => RegisterSum::shifted(register, Extension::WHOLE, shift),
    })
}

fn sum_with_shifted(word: InstructionWord) -> Option<ComputedValue> {
    let is_left = word.field(22, 2) == 0;
    let (left, right) = (word.register(5)?, shifted_register(word).filter(|_| is_left)?);
    Some(match word.bit(30) {
        true => ComputedValue::Binary(BinaryOperation::Subtract, left, right),
        false => {
            let extension = Extension::WHOLE;
            let shift = word.field(10, 6) as u8;
            let index =
                word.register(16).map(|register| ScaledIndex { register, extension, shift });
            ComputedValue::Sum(RegisterSum { base: Some(left), index, constant: 0 })
        }
    })
}

fn sum_with_extended(word: InstructionWord) -> Option<ComputedValue> {
    let shift = word.field(10, 3) as u8;
    let index = extended_register(word, shift);
    let left = word.register_or_sp(5);
    let right = RegisterSum { index, ..RegisterSum::default() };
    Some(match word.bit(30) {
        true => ComputedValue::Binary(BinaryOperation::Subtract, left, right),
        false => ComputedValue::Sum(RegisterSum { base: Some(left), ..right }),
    })
}

/// A second register that is widened and shifted; `None` if it is zero.
pub fn extended_register(word: InstructionWord, shift: u8) -> Option<ScaledIndex> {
    let bits = 8 << word.field(13, 2);
    let extension = if word.bit(15) { Extension::Signed(bits) } else { Extension::Unsigned(bits) };
    word.register(16).map(|register| ScaledIndex { register, extension, shift })
}

/// MADD that adds zero.
fn product(word: InstructionWord) -> Option<ComputedValue> {
    let is_product = word.matches(0x7fe0_fc00, 0x1b00_7c00);
    let (left, right) = (word.register(5)?, word.register(16).filter(|_| is_product)?);
    let right = RegisterSum::offset(right, 0);
    Some(ComputedValue::Binary(BinaryOperation::Multiply, left, right))
}
