//! The decoder of one process.

use std::ops::ControlFlow;

use crate::{Architecture, CodeReader, Operand, Registers};

/// Decodes the code of one process.
#[derive(Debug)]
pub struct OperandDecoder {
    architecture: Architecture,
}

impl OperandDecoder {
    /// Returns a decoder that has seen no code yet.
    #[must_use]
    pub fn new(architecture: Architecture) -> Self {
        Self { architecture }
    }

    /// Calls `visit` with each operand of known address, the most telling first, until it breaks:
    /// the instruction before `registers.pc`, the one there, those further back, those ahead.
    pub fn operands(
        &mut self,
        registers: &Registers,
        code: &mut dyn CodeReader,
        visit: &mut dyn FnMut(Operand) -> ControlFlow<()>,
    ) {
        let _ = (self.architecture, registers, code, visit);
    }

    /// Forgets all code: the process called exec, or it mapped other code at the same addresses.
    pub fn forget(&mut self) {}
}
