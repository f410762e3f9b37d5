//! The instructions of x86-64.

mod address;
mod effect;
mod starts;
mod update;

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, OpKind};

use crate::effect::{ControlTransfer, DecodedInstruction};

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
    pub fn decode(&mut self, bytes: &[u8], address: u64) -> Option<DecodedInstruction> {
        let mut decoder = Decoder::with_ip(64, bytes, address, DecoderOptions::NONE);
        let instruction = decoder.decode();
        is_for_programs(&instruction).then(|| DecodedInstruction {
            start: address,
            end: instruction.next_ip(),
            transfer: transfer(&instruction),
            effect: effect::effect(&instruction, &mut self.factory),
        })
    }
}

/// Whether a program may have this instruction. Data that is decoded as code often gives others.
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
