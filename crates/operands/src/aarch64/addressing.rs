//! Addresses at a base register and an offset.

use nodeward_model::AccessKind;

use super::word::InstructionWord;
use crate::effect::{
    ComputedValue, Effect, MemoryAccess, RegisterNumber, RegisterSum, RegisterUpdate,
};

/// The position of the base register in all loads and stores.
pub const BASE: u32 = 5;

/// The way in which an instruction addresses memory by its base register and an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addressing {
    /// At base and offset.
    Offset,
    /// At base and offset, which becomes the base.
    PreIndex,
    /// At the base, to which the offset is then added.
    PostIndex,
}

/// An access at the base register and an offset.
pub fn access(
    word: InstructionWord,
    addressing: Addressing,
    offset: RegisterSum,
    bytes: u32,
    kind: AccessKind,
) -> Effect {
    let base = word.register_or_sp(BASE);
    let moved = RegisterSum { base: Some(base), ..offset };
    let address = match addressing {
        Addressing::PostIndex => RegisterSum::offset(base, 0),
        Addressing::Offset | Addressing::PreIndex => moved,
    };
    let mut effect = Effect::default();
    effect.memory[0] = Some(MemoryAccess { address, bytes, kind });
    if addressing != Addressing::Offset {
        let value = ComputedValue::Sum(moved);
        effect.set(RegisterUpdate { register: base, value, narrow: false });
    }
    effect
}

/// An offset that is a constant.
pub fn constant_offset(offset: i64) -> RegisterSum {
    RegisterSum::constant(offset.cast_unsigned())
}

/// Returns the kind of access of a load or a store.
pub fn kind(loads: bool) -> AccessKind {
    if loads { AccessKind::Read } else { AccessKind::Write }
}

/// Enters that general registers change.
pub fn change_all(
    effect: &mut Effect,
    registers: impl IntoIterator<Item = Option<RegisterNumber>>,
) {
    registers.into_iter().flatten().for_each(|register| effect.change(register));
}
