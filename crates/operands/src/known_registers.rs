//! The registers that are known at an instruction, and their values.

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
    /// Returns registers that are all known.
    pub fn all(values: &[u64; 32]) -> Self {
        Self { values: *values, known: u32::MAX }
    }

    /// Returns the value of a sum; `None` if a register in it is unknown.
    pub fn sum(&self, sum: &RegisterSum) -> Option<u64> {
        let base = sum.base.map_or(Some(0), |base| self.get(base))?;
        Some(base.wrapping_add(self.without_base(sum)?))
    }

    /// Changes the registers as the execution of an instruction does.
    pub fn run(&mut self, effect: &Effect) {
        let value = effect.update.and_then(|update| self.updated(&update));
        self.known &= !effect.changed;
        if let (Some(update), Some(value)) = (effect.update, value) {
            self.set(update.register, value);
        }
    }

    /// Changes the registers to those before an instruction. A register that the instruction
    /// changed is unknown, unless the instruction added something known to it.
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

    /// Takes over registers that are known there and not here.
    pub fn learn(&mut self, other: &Self) {
        let new = other.known & !self.known;
        let values = self.values.iter_mut().zip(&other.values).enumerate();
        let learnt = values.filter(|(number, _)| new & 1 << number != 0);
        learnt.for_each(|(_, (value, other))| *value = *other);
        self.known |= new;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::effect::ComputedValue::{Binary, Sum};

    const A: u32 = 0;
    const B: u32 = 1;
    const C: u32 = 2;

    fn register(number: u32) -> RegisterNumber {
        RegisterNumber::new(number)
    }

    fn sets(target: u32, value: ComputedValue, narrow: bool) -> Effect {
        let mut effect = Effect::default();
        effect.set(RegisterUpdate { register: register(target), value, narrow });
        effect
    }

    fn changes(target: u32) -> Effect {
        let mut effect = Effect::default();
        effect.change(register(target));
        effect
    }

    /// The values 1000, 2000, 3000 and so on.
    fn thousands() -> KnownRegisters {
        KnownRegisters::all(&std::array::from_fn(|number| (number as u64 + 1) * 1000))
    }

    fn undone(effects: &[Effect]) -> [Option<u64>; 3] {
        let mut known = thousands();
        effects.iter().for_each(|effect| known.undo(effect));
        [A, B, C].map(|number| known.get(register(number)))
    }

    /// Goal: going back, what was loaded is unknown, and what was added is taken off.
    #[test]
    fn sums_are_undone() {
        let loaded = changes(A);
        assert_eq!(undone(&[loaded]), [None, Some(2000), Some(3000)]);
        // a += 8: 1000 - 8
        let added = sets(A, Sum(RegisterSum::offset(register(A), 8)), false);
        assert_eq!(undone(&[added]), [Some(992), Some(2000), Some(3000)]);
        // a += b << 1, and then b was changed; without b, a is unknown, too
        let index = RegisterSum::shifted(register(B), Extension::WHOLE, 1).index;
        let sum = RegisterSum { base: Some(register(A)), index, constant: 0 };
        let scaled = sets(A, Sum(sum), false);
        // 1000 - (2000 << 1) = -3000
        let minus = 3000_u64.wrapping_neg();
        assert_eq!(undone(&[scaled]), [Some(minus), Some(2000), Some(3000)]);
        assert_eq!(undone(&[changes(B), scaled]), [None, None, Some(3000)]);
    }

    /// Goal: a copy tells its source where the source was changed afterwards, and nothing where it
    /// was not.
    #[test]
    fn a_copy_tells_its_source() {
        // b = a + 5, then a was loaded: a was 2000 - 5
        let copy = sets(B, Sum(RegisterSum::offset(register(A), 5)), false);
        assert_eq!(undone(&[changes(A), copy]), [Some(1995), None, Some(3000)]);
        assert_eq!(undone(&[copy]), [Some(1000), None, Some(3000)]);
    }

    /// Goal: 32 bits of a result do not tell the 64 that were there.
    #[test]
    fn narrow_results_are_not_undone() {
        let added = sets(A, Sum(RegisterSum::offset(register(A), 8)), true);
        assert_eq!(undone(&[added]), [None, Some(2000), Some(3000)]);
    }

    fn after(effects: &[Effect]) -> Option<u64> {
        let mut known = thousands();
        effects.iter().for_each(|effect| known.run(effect));
        known.get(register(A))
    }

    /// Goal: going ahead, results follow from what is known.
    #[test]
    fn results_are_computed() {
        let with = |operation| {
            after(&[sets(A, Binary(operation, register(B), RegisterSum::constant(3)), false)])
        };
        // 2000 = 0b111_1101_0000
        assert_eq!(with(BinaryOperation::And), Some(0));
        assert_eq!(with(BinaryOperation::Or), Some(2003));
        assert_eq!(with(BinaryOperation::Xor), Some(2003));
        assert_eq!(with(BinaryOperation::Subtract), Some(1997));
        assert_eq!(with(BinaryOperation::Multiply), Some(6000));
        assert_eq!(with(BinaryOperation::ShiftLeft), Some(16_000));
        assert_eq!(with(BinaryOperation::ShiftRight), Some(250));
        // 1000 - 3000 in 32 bits: 2^32 - 2000
        let right = RegisterSum::offset(register(C), 0);
        let narrow = sets(A, Binary(BinaryOperation::Subtract, register(A), right), true);
        assert_eq!(after(&[narrow]), Some((1 << 32) - 2000));
        // 2000 = 0x7d0: its lowest byte is 0xd0, as a signed one 0xd0 - 0x100 = -48; times 2^4
        let signed = RegisterSum::shifted(register(B), Extension::Signed(8), 4);
        assert_eq!(after(&[sets(A, Sum(signed), false)]), Some(768_u64.wrapping_neg()));
        assert_eq!(after(&[changes(B), sets(A, Sum(signed), false)]), None);
    }
}
