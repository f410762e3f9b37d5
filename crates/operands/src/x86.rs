//! The instructions of x86-64.

mod address;
mod effect;
mod starts;
mod update;

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, OpKind};

use crate::effect::{ControlTransfer, Effect, InstructionPlace};

pub use starts::starts_before;

/// Decodes instructions.
#[derive(Debug)]
pub struct X86Instructions {
    factory: InstructionInfoFactory,
}

impl Default for X86Instructions {
    fn default() -> Self {
        Self { factory: InstructionInfoFactory::new() }
    }
}

impl X86Instructions {
    /// Decodes the first instruction of `bytes`; `None` if there is none that a program may use.
    pub fn decode(&mut self, bytes: &[u8], address: u64) -> Option<(InstructionPlace, Effect)> {
        let instruction = instruction(bytes, address)?;
        Some((place_of(&instruction), effect::effect(&instruction, &mut self.factory)))
    }
}

/// Returns where the first instruction of `bytes` is; `None` as for
/// [`decode`](X86Instructions::decode).
pub fn place(bytes: &[u8], address: u64) -> Option<InstructionPlace> {
    instruction(bytes, address).as_ref().map(place_of)
}

fn instruction(bytes: &[u8], address: u64) -> Option<Instruction> {
    let instruction = Decoder::with_ip(64, bytes, address, DecoderOptions::NONE).decode();
    is_for_programs(&instruction).then_some(instruction)
}

fn place_of(instruction: &Instruction) -> InstructionPlace {
    let (start, end) = (instruction.ip(), instruction.next_ip());
    InstructionPlace { start, end, transfer: transfer(instruction) }
}

/// Returns whether a program may have this instruction. Data that is decoded as code often gives
/// others.
fn is_for_programs(instruction: &Instruction) -> bool {
    !instruction.is_invalid() && !instruction.is_privileged()
}

fn transfer(instruction: &Instruction) -> ControlTransfer {
    let is_near = instruction.op0_kind() == OpKind::NearBranch64;
    match instruction.flow_control() {
        FlowControl::Next => ControlTransfer::Next,
        FlowControl::UnconditionalBranch if is_near => {
            ControlTransfer::Jump(instruction.near_branch_target())
        }
        FlowControl::ConditionalBranch if is_near => {
            ControlTransfer::Branch(instruction.near_branch_target())
        }
        _ => ControlTransfer::Elsewhere,
    }
}
