//! Branches, exceptions and system instructions.

use nodeward_model::AccessKind;

use super::word::InstructionWord;
use crate::effect::{ControlTransfer, Effect, MemoryAccess, RegisterNumber, RegisterSum};

/// The bytes that DC ZVA clears on nearly all processors. Its pointer may be anywhere in them.
const ZEROED_BYTES: u32 = 64;
/// The link register.
const LINK: u32 = 30;

/// Decodes an instruction of this group; `None` if it is not known.
pub fn decode(word: InstructionWord, address: u64) -> Option<(ControlTransfer, Effect)> {
    let is = |mask, value| word.matches(mask, value);
    let to = |low, width| {
        let words = word.signed_field(low, width);
        address.wrapping_add_signed(words * 4)
    };
    let plain = |transfer| Some((transfer, Effect::default()));
    if is(0xfc00_0000, 0x1400_0000) {
        return plain(ControlTransfer::Jump(to(0, 26)));
    }
    if is(0xff00_0000, 0x5400_0000) || is(0x7e00_0000, 0x3400_0000) {
        return plain(ControlTransfer::Branch(to(5, 19)));
    }
    if is(0x7e00_0000, 0x3600_0000) {
        return plain(ControlTransfer::Branch(to(5, 14)));
    }
    let calls = is(0xfc00_0000, 0x9400_0000);
    let is_exception = is(0xff00_0000, 0xd400_0000);
    if calls || is_exception || is(0xfe00_0000, 0xd600_0000) {
        return plain(ControlTransfer::Elsewhere);
    }
    is(0xffc0_0000, 0xd500_0000).then(|| (ControlTransfer::Next, system(word)))
}

/// Hints, barriers, system registers, caches.
fn system(word: InstructionWord) -> Effect {
    let mut effect = Effect::default();
    if word.matches(0xffff_ffe0, 0xd50b_7420) {
        effect.memory[0] = Some(MemoryAccess {
            address: RegisterSum { base: word.register(0), ..RegisterSum::default() },
            bytes: ZEROED_BYTES,
            kind: AccessKind::Write,
        });
    }
    let reads_system = word.bit(21);
    word.register(0).filter(|_| reads_system).into_iter().for_each(|one| effect.change(one));
    authenticated(word).into_iter().for_each(|one| effect.change(RegisterNumber::new(one)));
    effect
}

/// The register that a hint of pointer authentication changes.
fn authenticated(word: InstructionWord) -> Option<u32> {
    let is_hint = word.matches(0xffff_f01f, 0xd503_201f);
    match word.field(5, 7) {
        7 | 24..=31 if is_hint => Some(LINK),
        8 | 10 | 12 | 14 if is_hint => Some(17),
        _ => None,
    }
}
