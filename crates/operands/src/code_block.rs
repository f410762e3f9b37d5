//! The instructions around an address that a thread with the sampled registers executed or will
//! execute.

use crate::CodeReader;
use crate::code_window::CodeWindow;
use crate::effect::{ControlTransfer, Effect, InstructionPlace};
use crate::instruction_set::InstructionSet;

/// Instructions that are looked at before the pointer.
pub const BEHIND: usize = 8;
/// Instructions that are looked at from the pointer on.
const AHEAD: usize = 16;
/// Jumps, and branches back, that are followed ahead.
const JUMPS: usize = 2;

/// The effects of the instructions around an address.
#[derive(Clone, Debug)]
pub struct CodeBlock {
    /// Effects of the instructions before the address, the nearest first.
    pub behind: Box<[Effect]>,
    /// Effects of the instruction at the address and of those after it.
    pub ahead: Box<[Effect]>,
    digest: u64,
}

impl CodeBlock {
    /// Reads and decodes the code around `pc`.
    pub fn decode(set: &mut InstructionSet, code: &mut dyn CodeReader, pc: u64) -> Self {
        let window = CodeWindow::around(code, pc);
        let digest = window.digest();
        // Those without memory, too: they compute addresses.
        let behind = effects_behind(set, &window, pc).into_boxed_slice();
        let ahead = telling(effects_ahead(set, code, window, pc));
        Self { behind, ahead, digest }
    }

    /// Returns whether the code around `pc` is still what was decoded. The code that jumps lead to
    /// is not compared.
    pub fn is_current(&self, code: &mut dyn CodeReader, pc: u64) -> bool {
        CodeWindow::around(code, pc).digest() == self.digest
    }
}

/// Returns the effects of the instructions before `pc`, the nearest first, as far as control must
/// have come through them. They end at a jump, a branch or a call, and at a place to which a branch
/// nearby leads.
fn effects_behind(set: &mut InstructionSet, window: &CodeWindow, pc: u64) -> Vec<Effect> {
    let starts = set.starts_before(window, pc).into_iter();
    let before = starts.map_while(|start| set.place(window.bytes_from(start), start));
    let before: Vec<InstructionPlace> = before.collect();
    let targets: Vec<u64> =
        before.iter().copied().chain(straight_on(set, window, pc)).filter_map(target).collect();
    let leads_on = |one: &InstructionPlace| {
        one.transfer == ControlTransfer::Next && !targets.contains(&one.end)
    };
    let before = before.into_iter().take_while(leads_on).take(BEHIND);
    let decoded = before.map_while(|one| set.decode(window.bytes_from(one.start), one.start));
    decoded.map(|(_, effect)| effect).collect()
}

/// The instructions from `pc` to the end of the window, wherever control goes.
fn straight_on(
    set: &InstructionSet,
    window: &CodeWindow,
    pc: u64,
) -> impl Iterator<Item = InstructionPlace> {
    let place = |at| set.place(window.bytes_from(at), at);
    std::iter::successors(place(pc), move |one| place(one.end))
}

/// Returns the effects of the instructions from `pc` on, up to a branch that may go either way. A
/// branch back closes a loop, and is taken most of the time.
fn effects_ahead(
    set: &mut InstructionSet,
    code: &mut dyn CodeReader,
    window: CodeWindow,
    pc: u64,
) -> Vec<Effect> {
    let mut windows = vec![window];
    let mut effects = Vec::with_capacity(AHEAD);
    let mut jumps = 0;
    let mut at = pc;
    while effects.len() < AHEAD && jumps <= JUMPS {
        let bytes = windows.iter().map(|window| window.bytes_from(at)).find(|b| !b.is_empty());
        let Some((place, effect)) = set.decode(bytes.unwrap_or(&[]), at) else { break };
        effects.push(effect);
        let Some(next) = most_likely_next(&place) else { break };
        if next != place.end {
            jumps += 1;
            if windows.iter().all(|window| window.bytes_from(next).is_empty()) {
                windows.push(CodeWindow::after(code, next));
            }
        }
        at = next;
    }
    effects
}

/// Returns the address at which control goes on after an instruction, as far as it can be told.
fn most_likely_next(place: &InstructionPlace) -> Option<u64> {
    match place.transfer {
        ControlTransfer::Next => Some(place.end),
        ControlTransfer::Jump(target) => Some(target),
        ControlTransfer::Branch(target) => (target <= place.start).then_some(target),
        ControlTransfer::Elsewhere => None,
    }
}

fn target(place: InstructionPlace) -> Option<u64> {
    match place.transfer {
        ControlTransfer::Jump(target) | ControlTransfer::Branch(target) => Some(target),
        ControlTransfer::Next | ControlTransfer::Elsewhere => None,
    }
}

/// Drops what follows the last effect that accesses memory.
fn telling(mut effects: Vec<Effect>) -> Box<[Effect]> {
    let last = effects.iter().rposition(|effect| effect.memory[0].is_some());
    effects.truncate(last.map_or(0, |last| last + 1));
    effects.into_boxed_slice()
}
