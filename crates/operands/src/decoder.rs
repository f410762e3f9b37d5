//! Operands of the instructions around a sample, by a decoder for each process.

use std::ops::ControlFlow;

use crate::block_cache::BlockCache;
use crate::code_block::{BEHIND, CodeBlock};
use crate::effect::Effect;
use crate::instruction_set::InstructionSet;
use crate::known_registers::KnownRegisters;
use crate::{Architecture, CodeReader, Operand, Registers};

/// Decodes the code of one process.
///
/// Decoded code is kept, for at most 4096 values of the instruction pointer, which takes at most
/// some 8 MiB. The code at a pointer is compared at each 64th use, so code that is rewritten in
/// place (a JIT compiler's) is decoded wrongly for at most 63 samples a pointer; what a jump leads
/// to is not compared.
#[derive(Debug)]
pub struct OperandDecoder {
    architecture: Architecture,
    set: InstructionSet,
    cache: BlockCache,
}

impl OperandDecoder {
    /// Returns a decoder that has seen no code yet.
    #[must_use]
    pub fn new(architecture: Architecture) -> Self {
        let set = InstructionSet::new(architecture);
        Self { architecture, set, cache: BlockCache::default() }
    }

    /// Calls `visit` with each operand of known address, the most telling first, until it breaks.
    ///
    /// The order is: the instruction before `registers.pc`, the one there, those further back,
    /// those ahead. At most 8 are before and 16 from there on, with at most two operands each.
    pub fn operands(
        &mut self,
        registers: &Registers,
        code: &mut dyn CodeReader,
        visit: &mut dyn FnMut(Operand) -> ControlFlow<()>,
    ) {
        self.refresh(registers.pc, code);
        let Some(block) = self.cache.get(registers.pc) else { return };
        // A break ends the visit, which is all that it means.
        let _ = Visit { architecture: self.architecture, visit }.block(block, registers);
    }

    /// Forgets all code: the process called exec, or it mapped other code at the same addresses.
    pub fn forget(&mut self) {
        self.cache.clear();
    }

    fn refresh(&mut self, pc: u64, code: &mut dyn CodeReader) {
        let used = self.cache.use_block(pc);
        if !used.is_some_and(|(block, is_due)| !is_due || block.is_current(code, pc)) {
            self.cache.insert(pc, CodeBlock::decode(&mut self.set, code, pc));
        }
    }
}

/// Hands over the operands of a block.
struct Visit<'a> {
    architecture: Architecture,
    visit: &'a mut dyn FnMut(Operand) -> ControlFlow<()>,
}

impl Visit<'_> {
    fn block(&mut self, block: &CodeBlock, registers: &Registers) -> ControlFlow<()> {
        let known = KnownRegisters::all(&registers.general);
        let earlier = earlier(known, &block.behind);
        let mut behind = earlier.iter().zip(&*block.behind).zip((i8::MIN..=-1).rev());
        self.behind(behind.by_ref().take(1))?;
        let (next, after) = block.ahead.split_at(block.ahead.len().min(1));
        let mut later = known;
        self.ahead(&mut later, next, 0)?;
        self.behind(behind)?;
        self.ahead(&mut later, after, 1)
    }

    /// Visits the operands of effects, each with the registers before it and its position.
    fn behind<'b>(
        &mut self,
        effects: impl Iterator<Item = ((&'b KnownRegisters, &'b Effect), i8)>,
    ) -> ControlFlow<()> {
        for ((known, effect), position) in effects {
            self.operands(known, effect, position)?;
        }
        ControlFlow::Continue(())
    }

    fn ahead(
        &mut self,
        known: &mut KnownRegisters,
        effects: &[Effect],
        first: i8,
    ) -> ControlFlow<()> {
        for (effect, position) in effects.iter().zip(first..) {
            self.operands(known, effect, position)?;
            known.run(effect);
        }
        ControlFlow::Continue(())
    }

    fn operands(
        &mut self,
        known: &KnownRegisters,
        effect: &Effect,
        position: i8,
    ) -> ControlFlow<()> {
        for access in effect.memory.iter().flatten() {
            let pointer = known.sum(&access.address);
            let address = pointer.and_then(|pointer| self.architecture.program_address(pointer));
            if let Some(address) = address {
                let (bytes, kind) = (access.bytes, access.kind);
                (self.visit)(Operand { address, bytes, kind, position })?;
            }
        }
        ControlFlow::Continue(())
    }
}

/// Returns the registers before each effect, the nearest first; `known` are those after all.
///
/// What is known follows from the registers afterwards, by undoing. That may be enough to compute a
/// register that was overwritten: the index of a load that went into the index.
fn earlier(known: KnownRegisters, behind: &[Effect]) -> [KnownRegisters; BEHIND] {
    let mut before = [known; BEHIND];
    let mut undone = known;
    for (effect, before) in behind.iter().zip(&mut before) {
        undone.undo(effect);
        *before = undone;
    }
    for at in (1..behind.len().min(BEHIND)).rev() {
        let mut after = before[at];
        after.run(&behind[at]);
        before[at - 1].learn(&after);
    }
    before
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code_at::CodeAt;

    const START: u64 = 0x7000;

    /// Sixteen NOPs, so that starts can be found, and then these bytes.
    fn code(bytes: &[u8]) -> CodeAt {
        CodeAt { start: START, bytes: [&[0x90; 16], bytes].concat() }
    }

    /// Registers before the instruction at this offset behind the NOPs. Register n has the value
    /// (n + 1) x 2^20: rax 0x100000, rcx 0x200000, rdx 0x300000, rbx 0x400000.
    fn registers(offset: u64) -> Registers {
        let general = std::array::from_fn(|number| (number as u64 + 1) << 20);
        Registers { pc: START + 16 + offset, general }
    }

    fn told(decoder: &mut OperandDecoder, code: &mut CodeAt, at: &Registers) -> Vec<(i8, u64)> {
        let mut told = Vec::new();
        decoder.operands(at, code, &mut |operand| {
            told.push((operand.position, operand.address));
            ControlFlow::Continue(())
        });
        told
    }

    fn told_once(bytes: &[u8], offset: u64) -> Vec<(i8, u64)> {
        let mut decoder = OperandDecoder::new(Architecture::X86_64);
        told(&mut decoder, &mut code(bytes), &registers(offset))
    }

    /// mov esi, [rax+N] for N = 1, 2, 3, 4, 5: 3 bytes each.
    const LOADS: [u8; 15] =
        [0x8b, 0x70, 1, 0x8b, 0x70, 2, 0x8b, 0x70, 3, 0x8b, 0x70, 4, 0x8b, 0x70, 5];

    /// Goal: the instruction before comes first, then the one at the pointer, then those further
    /// back, then those ahead; and the visitor can end it.
    #[test]
    fn the_most_telling_comes_first() {
        let expected =
            [(-1, 0x10_0002), (0, 0x10_0003), (-2, 0x10_0001), (1, 0x10_0004), (2, 0x10_0005)];
        assert_eq!(told_once(&LOADS, 6), expected);
        let mut visits = 0;
        let mut decoder = OperandDecoder::new(Architecture::X86_64);
        decoder.operands(&registers(6), &mut code(&LOADS), &mut |_| {
            visits += 1;
            if visits < 2 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        assert_eq!(visits, 2);
    }

    /// Goal: a load that overwrote its own index is told if the index was computed just before from
    /// what is still there: rax >> 20 is 1, so the load was at rcx + 1.
    #[test]
    fn an_index_is_computed_again() {
        // mov rdx, rax; shr rdx, 20; movsx rdx, byte ptr [rcx+rdx]
        let indexed = [0x48, 0x89, 0xc2, 0x48, 0xc1, 0xea, 20, 0x48, 0xf, 0xbe, 0x14, 0x11];
        assert_eq!(told_once(&indexed, 12), [(-1, 0x20_0001)]);
        // The same with an add to rax behind it, which is undone: (rax - 0x100000) >> 20 is 0.
        let added = [&indexed[..], &[0x48, 5, 0, 0, 0x10, 0]].concat();
        assert_eq!(told_once(&added, 18), [(-2, 0x20_0000)]);
        // Not if rax was loaded behind it: mov rax, [rbx] at rbx.
        let lost = [&indexed[..], &[0x48, 0x8b, 3]].concat();
        assert_eq!(told_once(&lost, 15), [(-1, 0x40_0000)]);
    }

    /// Goal: behind a load that overwrote its own pointer, as in a list, the node before is not
    /// known, but the next is.
    #[test]
    fn the_next_node_of_a_list_is_told() {
        // loop: mov rax, [rax]; dec rcx; jne loop
        let chase = [0x48, 0x8b, 0, 0x48, 0xff, 0xc9, 0x75, 0xf8];
        assert_eq!(told_once(&chase, 3), [(2, 0x10_0000)]);
        // At the load itself it is at the pointer. Ahead the list goes on where nobody knows.
        assert_eq!(told_once(&chase, 0), [(0, 0x10_0000)]);
    }

    /// Goal: going back ends where control may have come from elsewhere.
    #[test]
    fn a_place_that_branches_lead_to_ends_the_way_back() {
        // mov esi, [rax+1]; loop: mov esi, [rcx+2]; dec rdx; jne loop
        let bytes = [0x8b, 0x70, 1, 0x8b, 0x71, 2, 0x48, 0xff, 0xca, 0x75, 0xf8];
        // Ahead: the branch back to the load at position 3; it is followed twice.
        let load = 0x20_0002;
        assert_eq!(told_once(&bytes, 3), [(0, load), (3, load), (6, load)]);
        assert_eq!(told_once(&bytes, 6), [(-1, load), (2, load), (5, load)]);
    }

    /// Goal: a forward branch ends the way ahead, a jump does not.
    #[test]
    fn jumps_are_followed_and_branches_are_not() {
        // je +3; mov esi, [rax+1]
        assert_eq!(told_once(&[0x74, 3, 0x8b, 0x70, 1], 0), []);
        // jmp +3; mov esi, [rax+1]; mov esi, [rax+2]
        assert_eq!(told_once(&[0xeb, 3, 0x8b, 0x70, 1, 0x8b, 0x70, 2], 0), [(1, 0x10_0002)]);
    }

    /// Goal: addresses that no program has are not told, and tags of Arm are taken off.
    #[test]
    fn addresses_are_those_of_programs() {
        let address = |architecture: Architecture, pointer| architecture.program_address(pointer);
        let x86 = |pointer| address(Architecture::X86_64, pointer);
        assert_eq!(x86(0x00ff_ffff_ffff_ffff), Some(0x00ff_ffff_ffff_ffff));
        assert_eq!(x86(0x0100_0000_0000_0000), None);
        assert_eq!(x86(0xffff_8000_0000_0000), None);
        let arm = |pointer| address(Architecture::Aarch64, pointer);
        assert_eq!(arm(0xab0f_ffff_ffff_f000), Some(0x000f_ffff_ffff_f000));
        assert_eq!(arm(0xab10_0000_0000_0000), None);
        assert_eq!(arm(0xffff_0000_0000_0000), None);
    }

    /// Goal: code that is rewritten in place is noticed after 64 samples, and at once if the caller
    /// says so.
    #[test]
    fn rewritten_code_is_noticed() {
        let mut decoder = OperandDecoder::new(Architecture::X86_64);
        let [mut old, mut new] = [code(&[0x8b, 0x70, 1]), code(&[0x8b, 0x70, 9])];
        let at = registers(0);
        assert_eq!(told(&mut decoder, &mut old, &at), [(0, 0x10_0001)]);
        let samples = (1..100).find(|_| told(&mut decoder, &mut new, &at) == [(0, 0x10_0009)]);
        assert_eq!(samples, Some(64));
        assert_eq!(told(&mut decoder, &mut old, &at), [(0, 0x10_0009)]);
        decoder.forget();
        assert_eq!(told(&mut decoder, &mut old, &at), [(0, 0x10_0001)]);
    }

    /// Goal: at the first byte of a mapping there is nothing before, and where nothing is mapped
    /// there is nothing at all.
    #[test]
    fn code_may_end_anywhere() {
        let mut decoder = OperandDecoder::new(Architecture::X86_64);
        let mut code = CodeAt { start: START, bytes: vec![0x8b, 0x70, 1] };
        let at = |pc| Registers { pc, ..registers(0) };
        assert_eq!(told(&mut decoder, &mut code, &at(START)), [(0, 0x10_0001)]);
        assert_eq!(told(&mut decoder, &mut code, &at(START + 1)), []);
        for pc in [0, 1, START - 1, START + 3, u64::MAX - 1, u64::MAX] {
            assert_eq!(told(&mut decoder, &mut code, &at(pc)), [], "{pc:x}");
        }
    }
}
