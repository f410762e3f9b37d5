//! The instructions around an address that were, or will be, executed with those registers.

use crate::CodeReader;
use crate::code_window::CodeWindow;
use crate::effect::{ControlTransfer, DecodedInstruction, Effect};
use crate::instruction_set::InstructionSet;

/// Instructions that are looked at before the pointer.
const BEHIND: usize = 8;
/// Instructions that are looked at from the pointer on.
const AHEAD: usize = 16;
/// Jumps, and branches back, that are followed ahead.
const JUMPS: usize = 2;

/// What the instructions before and after an address do.
#[derive(Clone, Debug)]
pub struct CodeBlock {
    /// Those before, the nearest first.
    pub behind: Box<[Effect]>,
    /// The one at the address, and those after it.
    pub ahead: Box<[Effect]>,
    digest: u64,
}

impl CodeBlock {
    /// Reads and decodes the code around `pc`.
    pub fn decode(set: &mut InstructionSet, code: &mut dyn CodeReader, pc: u64) -> Self {
        let window = CodeWindow::around(code, pc);
        let digest = window.digest();
        let behind = instructions_behind(set, &window, pc);
        let ahead = instructions_ahead(set, code, window, pc);
        Self { behind: telling_effects(&behind), ahead: telling_effects(&ahead), digest }
    }

    /// Whether the code around `pc` is still what was decoded. What jumps lead to is not compared.
    pub fn is_current(&self, code: &mut dyn CodeReader, pc: u64) -> bool {
        CodeWindow::around(code, pc).digest() == self.digest
    }
}

/// The instructions before `pc`, as far as control must have come through them: back to a jump, a
/// branch or a call, and to a place that a branch nearby leads to.
fn instructions_behind(
    set: &mut InstructionSet,
    window: &CodeWindow,
    pc: u64,
) -> Vec<DecodedInstruction> {
    let starts = set.starts_before(window, pc);
    let before: Vec<DecodedInstruction> =
        starts.into_iter().map_while(|start| set.decode(window.bytes_from(start), start)).collect();
    let after = straight_on(set, window, pc);
    let targets: Vec<u64> = before.iter().chain(&after).filter_map(target).collect();
    let leads_on = |one: &DecodedInstruction| {
        one.transfer == ControlTransfer::Next && !targets.contains(&one.end)
    };
    before.into_iter().take_while(leads_on).take(BEHIND).collect()
}

/// The instructions from `pc` to the end of the window, wherever control goes.
fn straight_on(set: &mut InstructionSet, window: &CodeWindow, pc: u64) -> Vec<DecodedInstruction> {
    let mut decode = |at| set.decode(window.bytes_from(at), at);
    let first = decode(pc);
    std::iter::successors(first, |one| decode(one.end)).collect()
}

/// The instructions from `pc` on, up to a branch that may go either way. A branch back closes a
/// loop, and most of the time it is taken.
fn instructions_ahead(
    set: &mut InstructionSet,
    code: &mut dyn CodeReader,
    window: CodeWindow,
    pc: u64,
) -> Vec<DecodedInstruction> {
    let mut windows = vec![window];
    let mut ahead: Vec<DecodedInstruction> = Vec::with_capacity(AHEAD);
    let mut jumps = 0;
    let mut at = pc;
    while ahead.len() < AHEAD {
        let bytes = windows.iter().map(|window| window.bytes_from(at)).find(|b| !b.is_empty());
        let Some(instruction) = set.decode(bytes.unwrap_or(&[]), at) else { break };
        ahead.push(instruction);
        let Some(next) = most_likely_next(&instruction) else { break };
        if next != instruction.end {
            jumps += 1;
            if windows.iter().all(|window| window.bytes_from(next).is_empty()) {
                windows.push(CodeWindow::after(code, next));
            }
        }
        if jumps > JUMPS {
            break;
        }
        at = next;
    }
    ahead
}

/// Where control goes on after an instruction, as far as that can be told.
fn most_likely_next(instruction: &DecodedInstruction) -> Option<u64> {
    match instruction.transfer {
        ControlTransfer::Next => Some(instruction.end),
        ControlTransfer::Jump(target) => Some(target),
        ControlTransfer::Branch(target) => (target <= instruction.start).then_some(target),
        ControlTransfer::Elsewhere => None,
    }
}

fn target(instruction: &DecodedInstruction) -> Option<u64> {
    match instruction.transfer {
        ControlTransfer::Jump(target) | ControlTransfer::Branch(target) => Some(target),
        ControlTransfer::Next | ControlTransfer::Elsewhere => None,
    }
}

/// The effects, without those after the last one that accesses memory.
fn telling_effects(instructions: &[DecodedInstruction]) -> Box<[Effect]> {
    let telling = instructions.iter().rposition(|one| one.effect.memory[0].is_some());
    let kept = &instructions[..telling.map_or(0, |last| last + 1)];
    kept.iter().map(|one| one.effect).collect()
}
