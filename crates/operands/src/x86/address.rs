//! Registers and addresses in the names of the decoder.

use iced_x86::Register;

use crate::effect::{Extension, RegisterNumber, RegisterSum, ScaledIndex};

/// Returns the number of a general register of 64 bits.
pub fn whole_register(register: Register) -> Option<RegisterNumber> {
    register.is_gpr64().then(|| RegisterNumber::new(register.number() as u32))
}

/// Returns the sum of an address; `None` if it takes registers of less than 64 bits. The
/// displacement of an address relative to the instruction pointer is the whole address.
pub fn address_sum(
    base: Register,
    index: Register,
    scale: u32,
    displacement: u64,
) -> Option<RegisterSum> {
    let base = match base {
        Register::None | Register::RIP => None,
        base => Some(whole_register(base)?),
    };
    let index = match index {
        Register::None => None,
        index => Some(ScaledIndex {
            register: whole_register(index)?,
            extension: Extension::WHOLE,
            shift: scale.trailing_zeros() as u8,
        }),
    };
    Some(RegisterSum { base, index, constant: displacement })
}
