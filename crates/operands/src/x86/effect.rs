//! What an instruction of x86-64 does.
//!
//! These operands are left out: relative to FS or GS, whose bases are not sampled; of gathers and
//! scatters, whose indices are in vectors; with addresses of 32 bits; bits of a bit string, which
//! can be anywhere. Prefetches and hints access nothing. A string instruction with REP is at the
//! pointers that it has reached.

use iced_x86::{
    CodeSize, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register,
    UsedMemory, UsedRegister,
};
use nodeward_model::AccessKind;

use super::address::{address_sum, whole_register};
use super::update;
use crate::effect::{Effect, MemoryAccess, RegisterNumber, RegisterSum};

/// Returns what the instruction does.
pub fn effect(instruction: &Instruction, factory: &mut InstructionInfoFactory) -> Effect {
    let info = factory.info(instruction);
    let mut effect = Effect::default();
    info.used_registers().iter().filter_map(changed).for_each(|one| effect.change(one));
    if let Some(update) = update::update(instruction) {
        effect.set(update);
    }
    if !is_of_bit_string(instruction) {
        let mut accesses = info.used_memory().iter().filter_map(access);
        effect.memory = [accesses.next(), accesses.next()];
    }
    effect
}

fn changed(used: &UsedRegister) -> Option<RegisterNumber> {
    let writes = !matches!(used.access(), OpAccess::Read | OpAccess::CondRead);
    let full = used.register().full_register();
    whole_register(full).filter(|_| writes)
}

fn is_of_bit_string(instruction: &Instruction) -> bool {
    matches!(instruction.mnemonic(), Mnemonic::Bt | Mnemonic::Btc | Mnemonic::Btr | Mnemonic::Bts)
        && instruction.op1_kind() == OpKind::Register
}

fn access(memory: &UsedMemory) -> Option<MemoryAccess> {
    let kind = match memory.access() {
        OpAccess::None | OpAccess::NoMemAccess => return None,
        OpAccess::Read | OpAccess::CondRead => AccessKind::Read,
        _ => AccessKind::Write,
    };
    let is_plain = memory.vsib_size() == 0
        && memory.address_size() == CodeSize::Code64
        && !matches!(memory.segment(), Register::FS | Register::GS);
    let address = address(memory).filter(|_| is_plain)?;
    Some(MemoryAccess { address, bytes: memory.memory_size().size() as u32, kind })
}

fn address(memory: &UsedMemory) -> Option<RegisterSum> {
    let (base, index) = (memory.base(), memory.index());
    address_sum(base, index, memory.scale(), memory.displacement())
}
