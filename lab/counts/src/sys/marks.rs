//! The marks as machine code: a small function for each.

use std::arch::global_asm;
use std::mem;

use crate::layout::SELECTABLE_SLOTS;

/// Number of kinds of marks.
const KINDS: usize = 6;
/// Bytes of a mark and a return.
const EACH: usize = 8;

global_asm!(
    ".p2align 3",
    "nodeward_lab_marks:",
    ".set nodeward_lab_what, 1",
    ".rept {kinds}",
    ".set nodeward_lab_slot, 0",
    ".rept {slots}",
    ".byte 0x0f, 0x1f, 0x80, 0x4e, 0x57, nodeward_lab_what, nodeward_lab_slot",
    "ret",
    ".set nodeward_lab_slot, nodeward_lab_slot + 1",
    ".endr",
    ".set nodeward_lab_what, nodeward_lab_what + 1",
    ".endr",
    kinds = const KINDS,
    slots = const SELECTABLE_SLOTS.end,
);

unsafe extern "C" {
    #[link_name = "nodeward_lab_marks"]
    static MARKS: [[u8; EACH]; KINDS * SELECTABLE_SLOTS.end];
}

/// Executes the mark of a kind (below six) for a slot (below the end of the choosable ones).
pub fn execute(what: usize, slot: usize) {
    let entry = place(what, slot);
    // SAFETY: this address holds a C function without arguments or result: a nop and a return.
    let function = unsafe { mem::transmute::<*const [u8; EACH], extern "C" fn()>(entry) };
    function();
}

fn place(what: usize, slot: usize) -> *const [u8; EACH] {
    assert!(what < KINDS && slot < SELECTABLE_SLOTS.end);
    let first: *const [u8; EACH] = (&raw const MARKS).cast();
    first.wrapping_add(what * SELECTABLE_SLOTS.end + slot)
}

/// Returns the bytes of that mark, without the return.
#[cfg(test)]
pub fn bytes(what: usize, slot: usize) -> [u8; EACH - 1] {
    // SAFETY: the place is one of the table's, which is readable code of ours.
    let all = unsafe { *place(what, slot) };
    [all[0], all[1], all[2], all[3], all[4], all[5], all[6]]
}
