//! The value that an instruction of x86-64 leaves in a register.

use iced_x86::{Instruction, Mnemonic, OpKind, Register};

use super::address::{address_sum, whole_register};
use crate::effect::{
    BinaryOperation, ComputedValue, Extension, RegisterNumber, RegisterSum, RegisterUpdate,
};

/// Returns the register whose new value follows from those before, and that value.
pub fn update(instruction: &Instruction) -> Option<RegisterUpdate> {
    stack_update(instruction).or_else(|| {
        let (register, narrow) = target(instruction)?;
        let value = value(instruction, register)?;
        Some(RegisterUpdate { register, value, narrow })
    })
}

/// Pushes, pops and returns move the stack pointer by a constant.
fn stack_update(instruction: &Instruction) -> Option<RegisterUpdate> {
    let added = i64::from(instruction.stack_pointer_increment());
    let loads_pointer = instruction.op0_register() == Register::RSP
        || matches!(instruction.mnemonic(), Mnemonic::Leave | Mnemonic::Enter);
    let register = whole_register(Register::RSP)?;
    let sum = RegisterSum::offset(register, added.cast_unsigned());
    (added != 0 && !loads_pointer).then_some(RegisterUpdate {
        register,
        value: ComputedValue::Sum(sum),
        narrow: false,
    })
}

/// Returns the register that is the first operand, and whether the operand is the lower half.
fn target(instruction: &Instruction) -> Option<(RegisterNumber, bool)> {
    let is_register = instruction.op_count() > 0 && instruction.op0_kind() == OpKind::Register;
    general(instruction.op0_register()).filter(|_| is_register)
}

/// Returns the number of a general register of 64 or 32 bits, and whether it has 32 bits.
fn general(register: Register) -> Option<(RegisterNumber, bool)> {
    let narrow = register.is_gpr32();
    let known = narrow || register.is_gpr64();
    known.then(|| (RegisterNumber::new(register.number() as u32), narrow))
}

fn value(instruction: &Instruction, target: RegisterNumber) -> Option<ComputedValue> {
    let binary =
        |operation| Some(ComputedValue::Binary(operation, target, source(instruction, 1)?));
    match instruction.mnemonic() {
        Mnemonic::Xor | Mnemonic::Sub if is_of_one_register(instruction) => {
            Some(ComputedValue::Sum(RegisterSum::constant(0)))
        }
        Mnemonic::Mov => source(instruction, 1).map(ComputedValue::Sum),
        Mnemonic::Movzx => widened(instruction, Extension::Unsigned),
        Mnemonic::Movsx | Mnemonic::Movsxd => widened(instruction, Extension::Signed),
        Mnemonic::Lea => effective_address(instruction).map(ComputedValue::Sum),
        Mnemonic::Add => added(target, source(instruction, 1)?),
        Mnemonic::Inc => Some(ComputedValue::Sum(RegisterSum::offset(target, 1))),
        Mnemonic::Dec => Some(ComputedValue::Sum(RegisterSum::offset(target, u64::MAX))),
        Mnemonic::Sub => subtracted(target, source(instruction, 1)?),
        Mnemonic::Xor => binary(BinaryOperation::Xor),
        Mnemonic::And => binary(BinaryOperation::And),
        Mnemonic::Or => binary(BinaryOperation::Or),
        Mnemonic::Shl => shift(instruction, BinaryOperation::ShiftLeft, target),
        Mnemonic::Shr => shift(instruction, BinaryOperation::ShiftRight, target),
        Mnemonic::Imul => product(instruction, target),
        _ => None,
    }
}

/// Returns whether both operands are the same register. Programs clear registers in that way.
fn is_of_one_register(instruction: &Instruction) -> bool {
    instruction.op1_kind() == OpKind::Register
        && instruction.op0_register() == instruction.op1_register()
}

/// A register of 64 or 32 bits, or a constant.
fn source(instruction: &Instruction, operand: u32) -> Option<RegisterSum> {
    if instruction.op_kind(operand) == OpKind::Register {
        let (register, _) = general(instruction.op_register(operand))?;
        return Some(RegisterSum::offset(register, 0));
    }
    instruction.try_immediate(operand).ok().map(RegisterSum::constant)
}

/// A register of fewer bits. The second lowest bytes of registers are left out.
fn widened(instruction: &Instruction, extension: fn(u8) -> Extension) -> Option<ComputedValue> {
    let source = instruction.op1_register();
    let is_register = instruction.op1_kind() == OpKind::Register;
    let is_low = !matches!(source, Register::AH | Register::BH | Register::CH | Register::DH);
    let register = whole_register(source.full_register()).filter(|_| is_register && is_low)?;
    let extension = extension(source.size() as u8 * 8);
    Some(ComputedValue::Sum(RegisterSum::shifted(register, extension, 0)))
}

fn effective_address(instruction: &Instruction) -> Option<RegisterSum> {
    let (base, index) = (instruction.memory_base(), instruction.memory_index());
    let scale = instruction.memory_index_scale();
    address_sum(base, index, scale, instruction.memory_displacement64())
}

/// Adds to the target. It stays the base, so that the sum can be undone.
fn added(target: RegisterNumber, source: RegisterSum) -> Option<ComputedValue> {
    let mut sum = RegisterSum::offset(target, source.constant);
    if let Some(register) = source.base {
        sum.index = RegisterSum::shifted(register, Extension::WHOLE, 0).index;
    }
    Some(ComputedValue::Sum(sum))
}

fn subtracted(target: RegisterNumber, source: RegisterSum) -> Option<ComputedValue> {
    Some(match source.base {
        Some(_) => ComputedValue::Binary(BinaryOperation::Subtract, target, source),
        None => ComputedValue::Sum(RegisterSum::offset(target, source.constant.wrapping_neg())),
    })
}

/// Shifts by a constant. A shift by CL is masked by the width, which is not known here.
fn shift(
    instruction: &Instruction,
    operation: BinaryOperation,
    target: RegisterNumber,
) -> Option<ComputedValue> {
    let mask = if instruction.op0_register().is_gpr32() { 31 } else { 63 };
    let count = instruction.try_immediate(1).ok()? & mask;
    Some(ComputedValue::Binary(operation, target, RegisterSum::constant(count)))
}

/// The product of two operands, or of the second and the third.
fn product(instruction: &Instruction, target: RegisterNumber) -> Option<ComputedValue> {
    let (left, right) = match instruction.op_count() {
        2 => (target, source(instruction, 1)?),
        3 => (source(instruction, 1)?.base?, source(instruction, 2)?),
        _ => return None,
    };
    Some(ComputedValue::Binary(BinaryOperation::Multiply, left, right))
}
