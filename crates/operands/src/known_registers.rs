//! Which registers are known before an instruction, and their values.

use crate::effect::{
    BinaryOperation, ComputedValue, Effect, Extension, RegisterNumber, RegisterSum, RegisterUpdate,
    ScaledIndex,
};

/// The values of some general registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownRegisters {
    values: [u64; 32],
    known: u32,
}

impl KnownRegisters {
    /// All registers are known.
    pub fn all(values: &[u64; 32]) -> Self {
        Self { values: *values, known: u32::MAX }
    }

    /// Returns a sum if all its registers are known.
    pub fn sum(&self, sum: &RegisterSum) -> Option<u64> {
        let base = sum.base.map_or(Some(0), |base| self.get(base))?;
        Some(base.wrapping_add(self.without_base(sum)?))
    }

    /// Goes ahead over an instruction.
    pub fn run(&mut self, effect: &Effect) {
        let value = effect.update.and_then(|update| self.updated(&update));
        self.known &= !effect.changed;
        if let (Some(update), Some(value)) = (effect.update, value) {
            self.set(update.register, value);
        }
    }

    /// Goes back over an instruction: what it changed is unknown, unless it added something known.
    ///
    /// After a copy the source is known from the target, too. Results of 32 bits do not tell what
    /// the upper bits were.
    pub fn undo(&mut self, effect: &Effect) {
        let told = effect.update.filter(|update| !update.narrow).and_then(|update| {
            let ComputedValue::Sum(sum) = update.value else { return None };
            Some((sum.base?, sum, self.get(update.register)?))
        });
        self.known &= !effect.changed;
        if let Some((base, sum, value)) = told
            && self.get(base).is_none()
            && let Some(added) = self.without_base(&sum)
        {
            self.set(base, value.wrapping_sub(added));
        }
    }

    /// Returns the set of known registers that have other values than these.
    #[cfg(test)]
    pub fn differences(&self, values: &[u64; 32]) -> u32 {
        let differs = |number: &u32| self.values[*number as usize] != values[*number as usize];
        (0..32).filter(differs).map(|number| 1 << number).sum::<u32>() & self.known
    }

    fn get(&self, register: RegisterNumber) -> Option<u64> {
        (self.known & register.bit() != 0).then(|| self.values[register.index()])
    }

    fn set(&mut self, register: RegisterNumber, value: u64) {
        self.known |= register.bit();
        self.values[register.index()] = value;
    }

    fn without_base(&self, sum: &RegisterSum) -> Option<u64> {
        let index = sum.index.map_or(Some(0), |index| self.index(index))?;
        Some(index.wrapping_add(sum.constant))
    }

    fn index(&self, index: ScaledIndex) -> Option<u64> {
        let value = self.get(index.register)?;
        let widened = match index.extension {
            Extension::Unsigned(bits) => value << unused(bits) >> unused(bits),
            Extension::Signed(bits) => {
                (value.cast_signed() << unused(bits) >> unused(bits)).cast_unsigned()
            }
        };
        Some(widened.wrapping_shl(u32::from(index.shift)))
    }

    fn updated(&self, update: &RegisterUpdate) -> Option<u64> {
        let cut = |value| if update.narrow { low_half(value) } else { value };
        let value = match &update.value {
            ComputedValue::Sum(sum) => self.sum(sum)?,
            ComputedValue::Binary(operation, left, right) => {
                compute(*operation, cut(self.get(*left)?), cut(self.sum(right)?))
            }
        };
        Some(cut(value))
    }
}

fn unused(bits: u8) -> u32 {
    64_u32.saturating_sub(u32::from(bits)).min(63)
}

fn low_half(value: u64) -> u64 {
    value & u64::from(u32::MAX)
}

fn compute(operation: BinaryOperation, left: u64, right: u64) -> u64 {
    match operation {
        BinaryOperation::And => left & right,
        BinaryOperation::Or => left | right,
        BinaryOperation::Xor => left ^ right,
        BinaryOperation::Subtract => left.wrapping_sub(right),
        BinaryOperation::Multiply => left.wrapping_mul(right),
        BinaryOperation::ShiftLeft => left.wrapping_shl(right as u32),
        BinaryOperation::ShiftRight => left.wrapping_shr(right as u32),
    }
}
