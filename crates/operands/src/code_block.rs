//! The instructions around an address that were, or will be, executed with those registers.

use crate::CodeReader;
use crate::code_window::CodeWindow;
use crate::effect::{ControlTransfer, DecodedInstruction, Effect};
use crate::instruction_set::InstructionSet;

/// Instructions that are looked at before the pointer.
const BEHIND: usize = 8;
/// Instructions that are looked at from the pointer on.
const AHEAD: usize = 16;

/// What the instructions before and after an address do.
#[derive(Clone, Debug)]
pub struct CodeBlock {
    /// Those before, the nearest first, as far as it is sure that control came through them.
    pub behind: Box<[Effect]>,
    /// The one at the address, and those after it, up to a branch that may go either way.
    pub ahead: Box<[Effect]>,
    digest: u64,
}

impl CodeBlock {
    /// Reads and decodes the code around `pc`.
    pub fn decode(set: &mut InstructionSet, code: &mut dyn CodeReader, pc: u64) -> Self {
        let window = CodeWindow::around(code, pc);
        let mut ahead = instructions_ahead(set, code, &window, pc);
        let mut behind = instructions_behind(set, &window, pc);
        behind = through_loop(behind, &ahead, pc);
        drop_silent_tail(&mut ahead);
        drop_silent_tail(&mut behind);
        Self { behind: effects(&behind), ahead: effects(&ahead), digest: window.digest() }
    }

    /// Whether the code around `pc` is still what was decoded. The targets of jumps are not
    /// compared.
    pub fn is_current(&self, code: &mut dyn CodeReader, pc: u64) -> bool {
        CodeWindow::around(code, pc).digest() == self.digest
    }
}

/// Follows jumps, and the branches that close loops: most of the time those go back. One of them
/// may lead to code outside the window.
fn instructions_ahead(
    set: &mut InstructionSet,
    code: &mut dyn CodeReader,
    window: &CodeWindow,
    pc: u64,
) -> Vec<DecodedInstruction> {
    let mut ahead = Vec::with_capacity(AHEAD);
    let mut outside = None;
    let mut at = pc;
    while ahead.len() < AHEAD {
        let windows = [Some(window), outside.as_ref()];
        let bytes = windows.into_iter().flatten().map(|window| window.bytes_from(at));
        let bytes = bytes.max_by_key(|bytes| bytes.len()).unwrap_or(&[]);
        let Some(instruction) = set.decode(bytes, at) else { break };
        ahead.push(instruction);
        let Some(next) = most_likely_next(&instruction) else { break };
        if outside.is_none() && window.bytes_from(next).is_empty() {
            outside = Some(CodeWindow::after(code, next));
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

fn instructions_behind(
    set: &mut InstructionSet,
    window: &CodeWindow,
    pc: u64,
) -> Vec<DecodedInstruction> {
    let starts = set.starts_before(window, pc);
    let decoded = starts.into_iter().map_while(|start| set.decode(window.bytes_from(start), start));
    decoded.take_while(|one| one.transfer == ControlTransfer::Next).take(BEHIND).collect()
}

/// At the head of a loop control has most likely come from its end, not from what stands before it.
fn through_loop(
    mut behind: Vec<DecodedInstruction>,
    ahead: &[DecodedInstruction],
    pc: u64,
) -> Vec<DecodedInstruction> {
    let jump = ahead.iter().position(|one| one.transfer != ControlTransfer::Next);
    let Some(head) = jump.and_then(|jump| target(&ahead[jump])) else { return behind };
    let inside = behind.iter().position(|one| one.start == head).map(|last| last + 1);
    let Some(inside) = inside.or((head == pc).then_some(0)) else { return behind };
    behind.truncate(inside);
    behind.extend(ahead[..=jump.unwrap_or(0)].iter().rev());
    behind.truncate(BEHIND);
    behind
}

fn target(instruction: &DecodedInstruction) -> Option<u64> {
    match instruction.transfer {
        ControlTransfer::Jump(target) | ControlTransfer::Branch(target) => Some(target),
        ControlTransfer::Next | ControlTransfer::Elsewhere => None,
    }
}

/// Drops the instructions behind which no other accesses memory.
fn drop_silent_tail(instructions: &mut Vec<DecodedInstruction>) {
    let telling = instructions.iter().rposition(|one| one.effect.memory[0].is_some());
    instructions.truncate(telling.map_or(0, |last| last + 1));
}

fn effects(instructions: &[DecodedInstruction]) -> Box<[Effect]> {
    instructions.iter().map(|one| one.effect).collect()
}
