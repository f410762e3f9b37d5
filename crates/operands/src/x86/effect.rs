//! The effect of an instruction of x86-64.
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
    // The size is unknown if it depends on a counter or on the processor.
    let bytes = memory.memory_size().size().max(1) as u32;
    Some(MemoryAccess { address, bytes, kind })
}

fn address(memory: &UsedMemory) -> Option<RegisterSum> {
    let (base, index) = (memory.base(), memory.index());
    address_sum(base, index, memory.scale(), memory.displacement())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::known_registers::KnownRegisters;
    use crate::x86::X86Instructions;

    /// The accesses of an instruction at 0x1000, as kind, address and bytes, and the registers that
    /// it changes. Register n has the value (n + 1) x 2^20: rax 0x100000, rcx 0x200000, rbx
    /// 0x400000, rsp 0x500000, rsi 0x700000, rdi 0x800000.
    fn described(bytes: &[u8]) -> String {
        let (place, effect) = X86Instructions::default().decode(bytes, 0x1000).unwrap();
        assert_eq!(place.end, 0x1000 + bytes.len() as u64);
        let values = std::array::from_fn(|number| (number as u64 + 1) << 20);
        let known = KnownRegisters::all(&values);
        let accesses = effect.memory.iter().flatten().map(|access| {
            let kind = if access.kind == AccessKind::Read { 'r' } else { 'w' };
            format!("{kind} {:x} {}", known.sum(&access.address).unwrap(), access.bytes)
        });
        let changed = effect.changed;
        let changed = (0..32).filter(|number| changed >> number & 1 == 1);
        let changed = changed.map(|number: u32| format!("={number}"));
        accesses.chain(changed).collect::<Vec<_>>().join(", ")
    }

    /// Goal: operands are told with their size and kind, also of VEX, EVEX and XOP.
    #[test]
    fn operands_are_told() {
        // mov rax, [rbx+rcx*8+0x10]: 0x400000 + 0x200000 * 8 + 0x10
        assert_eq!(described(&[0x48, 0x8b, 0x44, 0xcb, 0x10]), "r 1400010 8, =0");
        // mov rax, [rip+0x10]: 0x1000 + 7 + 0x10
        assert_eq!(described(&[0x48, 0x8b, 5, 0x10, 0, 0, 0]), "r 1017 8, =0");
        // mov byte ptr [rdi], 1
        assert_eq!(described(&[0xc6, 7, 1]), "w 800000 1");
        // add [rdi], eax
        assert_eq!(described(&[1, 7]), "w 800000 4");
        // cmp [rdi], eax
        assert_eq!(described(&[0x39, 7]), "r 800000 4");
        // lock xadd [rdi], rax
        assert_eq!(described(&[0xf0, 0x48, 0xf, 0xc1, 7]), "w 800000 8, =0");
        // cmovne rax, [rbx]
        assert_eq!(described(&[0x48, 0xf, 0x45, 3]), "r 400000 8, =0");
        // vmovaps [rdi+rcx*4], ymm1: 0x800000 + 0x200000 * 4
        assert_eq!(described(&[0xc5, 0xfc, 0x29, 0xc, 0x8f]), "w 1000000 32");
        // vmovdqu64 zmm0, [rax+0x40]
        assert_eq!(described(&[0x62, 0xf1, 0xfe, 0x48, 0x6f, 0x40, 1]), "r 100040 64");
        // vfrczps xmm0, [rax]
        assert_eq!(described(&[0x8f, 0xe9, 0x78, 0x80, 0]), "r 100000 16");
    }

    /// Goal: what uses the stack is at the stack pointer before the instruction.
    #[test]
    fn the_stack_is_an_operand() {
        // push rax; push [rbx]; pop rax; ret; leave
        assert_eq!(described(&[0x50]), "w 4ffff8 8, =4");
        assert_eq!(described(&[0xff, 0x33]), "r 400000 8, w 4ffff8 8, =4");
        assert_eq!(described(&[0x58]), "r 500000 8, =0, =4");
        assert_eq!(described(&[0xc3]), "r 500000 8, =4");
        assert_eq!(described(&[0xc9]), "r 600000 8, =4, =5");
        // pop [rsp+8] counts from the stack pointer after it: 0x500000 + 8 + 8
        assert_eq!(described(&[0x8f, 0x44, 0x24, 8]), "w 500010 8, r 500000 8, =4");
        // call 0x1005; call [rbx]
        assert_eq!(described(&[0xe8, 0, 0, 0, 0]), "w 4ffff8 8, =4");
        assert_eq!(described(&[0xff, 0x13]), "r 400000 8, w 4ffff8 8, =4");
    }

    /// Goal: string instructions are at their pointers, which they change. How far one with REP
    /// goes is not told.
    #[test]
    fn strings_are_at_their_pointers() {
        // movsq; rep movsb; rep stosq
        assert_eq!(described(&[0x48, 0xa5]), "w 800000 8, r 700000 8, =6, =7");
        assert_eq!(described(&[0xf3, 0xa4]), "w 800000 1, r 700000 1, =1, =6, =7");
        assert_eq!(described(&[0xf3, 0x48, 0xab]), "w 800000 1, =1, =7");
    }

    /// Goal: what is no access, or is at an address that is not sampled, is left out.
    #[test]
    fn other_operands_are_left_out() {
        // lea rax, [rbx+rcx*4]; nop [rax]; prefetcht0 [rax]; endbr64
        assert_eq!(described(&[0x48, 0x8d, 4, 0x8b]), "=0");
        assert_eq!(described(&[0xf, 0x1f, 0]), "");
        assert_eq!(described(&[0xf, 0x18, 8]), "");
        assert_eq!(described(&[0xf3, 0xf, 0x1e, 0xfa]), "");
        // mov rax, fs:[0x28]; mov eax, [ecx]; bt [rax], rcx
        assert_eq!(described(&[0x64, 0x48, 0x8b, 4, 0x25, 0x28, 0, 0, 0]), "=0");
        assert_eq!(described(&[0x67, 0x8b, 1]), "=0");
        assert_eq!(described(&[0x48, 0xf, 0xa3, 8]), "");
        // vpgatherdd ymm0, [rax+ymm1*4], ymm2
        assert_eq!(described(&[0xc4, 0xe2, 0x6d, 0x90, 4, 0x88]), "");
    }

    /// Goal: what only the kernel may use is no instruction of a program.
    #[test]
    fn privileged_instructions_are_none() {
        // hlt; in al, dx; invlpg [rax]; nothing
        for bytes in [&[0xf4][..], &[0xec], &[0xf, 1, 0x38], &[]] {
            assert_eq!(X86Instructions::default().decode(bytes, 0), None, "{bytes:x?}");
        }
    }
}
