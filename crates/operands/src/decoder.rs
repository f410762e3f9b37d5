//! The decoder of one process.

use std::ops::ControlFlow;

use crate::block_cache::BlockCache;
use crate::code_block::CodeBlock;
use crate::effect::Effect;
use crate::instruction_set::InstructionSet;
use crate::known_registers::KnownRegisters;
use crate::{Architecture, CodeReader, Operand, Registers};

/// Decodes the code of one process.
///
/// Decoded code is kept, for at most 4096 values of the instruction pointer, which takes a few MiB
/// at most. The code at a pointer is compared at each 64th use, so code that is rewritten in place
/// (a JIT compiler's) is decoded wrongly for at most 63 samples a pointer; what a jump leads to is
/// not compared.
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
        let mut earlier = known;
        let (last, before) = block.behind.split_at(block.behind.len().min(1));
        self.behind(&mut earlier, last, -1)?;
        let (next, after) = block.ahead.split_at(block.ahead.len().min(1));
        let mut later = known;
        self.ahead(&mut later, next, 0)?;
        self.behind(&mut earlier, before, -2)?;
        self.ahead(&mut later, after, 1)
    }

    /// Goes back over effects, the first of which has this position.
    fn behind(
        &mut self,
        known: &mut KnownRegisters,
        effects: &[Effect],
        first: i8,
    ) -> ControlFlow<()> {
        for (effect, position) in effects.iter().zip((i8::MIN..=first).rev()) {
            known.undo(effect);
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
                let (bytes, kind) = (access.bytes.max(1), access.kind);
                (self.visit)(Operand { address, bytes, kind, position })?;
            }
        }
        ControlFlow::Continue(())
    }
}
