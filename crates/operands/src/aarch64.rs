//! The A64 instructions of Arm (Arm Architecture Reference Manual, DDI 0487, chapter C4).
//!
//! Loads and stores of general and of vector registers give operands: all addressing modes, pairs,
//! exclusive and ordered ones, atomic operations, structures of vectors, and DC ZVA. Prefetches
//! access nothing. Instructions of SVE, SME, MOPS, memory tags and newer extensions are not
//! decoded, so that a search for operands ends at each of them. Loads with pointer authentication
//! give no operand, but the registers that they change are known.
//!
//! Tests run code that compilers made, in an emulator. No test has run on an Arm machine.

mod addressing;
mod branches;
mod data_processing;
mod loads_stores;
mod single_register;
mod vector_structures;
mod word;

use crate::code_window::CodeWindow;
use crate::effect::{ControlTransfer, Effect, InstructionPlace};
use word::InstructionWord;

/// Each instruction has this many bytes.
const INSTRUCTION_BYTES: u64 = 4;

/// Decodes the first instruction of `bytes`; `None` if it is not known what it changes.
pub fn decode(bytes: &[u8], address: u64) -> Option<(InstructionPlace, Effect)> {
    let word = InstructionWord(u32::from_le_bytes(*bytes.first_chunk()?));
    let (transfer, effect) = match word.field(25, 4) {
        0b0100 | 0b0110 | 0b1100 | 0b1110 => next(loads_stores::effect(word, address)?),
        0b1000 | 0b1001 => next(data_processing::immediate(word, address)),
        0b0101 | 0b1101 => next(data_processing::register(word)),
        0b0111 | 0b1111 => next(data_processing::vector(word)),
        0b1010 | 0b1011 => branches::decode(word, address)?,
        _ => return None,
    };
    let end = address.wrapping_add(INSTRUCTION_BYTES);
    Some((InstructionPlace { start: address, end, transfer }, effect))
}

fn next(effect: Effect) -> (ControlTransfer, Effect) {
    (ControlTransfer::Next, effect)
}

/// Returns the starts of the instructions before `pc`, the nearest first.
pub fn starts_before(window: &CodeWindow, pc: u64) -> Vec<u64> {
    let start = window.start();
    let before = |end: &u64| end.checked_sub(INSTRUCTION_BYTES).filter(|&at| at >= start);
    std::iter::successors(before(&pc), before).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use nodeward_model::AccessKind;

    use super::*;
    use crate::known_registers::KnownRegisters;

    fn at(word: u32, address: u64) -> Option<(InstructionPlace, Effect)> {
        decode(&word.to_le_bytes(), address)
    }

    /// Values of the registers with which the fixture was made: the lower half of every second one
    /// is negative as a number of 32 bits.
    fn registers() -> [u64; 32] {
        std::array::from_fn(|number| {
            let number = number as u64;
            (number + 1) << 36 | (number % 2) << 31 | number << 12
        })
    }

    /// Writes the effect of an instruction as a line of the fixture has it.
    fn described(effect: &Effect) -> String {
        let known = KnownRegisters::all(&registers());
        let accesses = effect.memory.iter().flatten().map(|access| {
            let kind = if access.kind == AccessKind::Read { 'r' } else { 'w' };
            format!("{kind}:{:x}:{}", known.sum(&access.address).unwrap(), access.bytes)
        });
        let changed = effect.changed;
        let changed = (0..32).filter(|number| changed >> number & 1 == 1);
        let changed: Vec<String> = changed.map(|number: u32| number.to_string()).collect();
        format!("{}|{}", accesses.collect::<Vec<_>>().join(","), changed.join(","))
    }

    /// Goal: loads and stores access, and change, what the assembler's text of them says.
    #[test]
    fn loads_and_stores_are_as_binutils_reads_them() {
        let path = "../../fixtures/operands/aarch64-encodings.txt";
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
        let lines = std::fs::read_to_string(path).unwrap();
        for line in lines.lines() {
            let fields: Vec<&str> = line.splitn(4, '|').collect();
            let [word, address] = [fields[0], fields[2]].map(|t| u64::from_str_radix(t, 16));
            let (_, effect) = at(word.unwrap() as u32, address.unwrap()).expect(line);
            assert_eq!(described(&effect), fields[3], "{line}");
        }
        assert!(lines.lines().count() > 200);
    }

    /// Goal: what is not understood is not gone over, and what is no access is none.
    #[test]
    fn what_is_not_understood_is_no_instruction() {
        let words = [
            (0x0000_0000, "udf #0"),
            (0x8540_0000, "ldr p0, [x0] (SVE)"),
            (0xd920_0800, "stg x0, [x0] (tags)"),
            (0x1900_0400, "cpyfp [x0]!, [x0]!, x0! (MOPS)"),
            (0x6900_0000, "stgp x0, x0, [x0]"),
            (0xf83f_d000, "ld64b x0, [x0]"),
        ];
        for (word, text) in words {
            assert_eq!(at(word, 0), None, "{text}");
        }
        let silent = [(0xf980_0000, "prfm pldl1keep, [x0]"), (0xd503_201f, "nop")];
        for (word, text) in silent {
            assert_eq!(at(word, 0).expect(text).1, Effect::default(), "{text}");
        }
    }

    /// Goal: branches lead to the addresses that their instructions name.
    #[test]
    fn branches_lead_to_their_targets() {
        let transfer = |word| at(word, 0x1000).unwrap().0.transfer;
        // b +8, b -4: words of 4 bytes from the instruction's address
        assert_eq!(transfer(0x1400_0002), ControlTransfer::Jump(0x1008));
        assert_eq!(transfer(0x17ff_ffff), ControlTransfer::Jump(0xffc));
        // b.ne -8, cbz x0 +16, tbnz x0, #3, -4
        assert_eq!(transfer(0x54ff_ffc1), ControlTransfer::Branch(0xff8));
        assert_eq!(transfer(0xb400_0080), ControlTransfer::Branch(0x1010));
        assert_eq!(transfer(0x371f_ffe0), ControlTransfer::Branch(0xffc));
        // bl, blr x1, ret, svc #0
        for word in [0x9400_0000, 0xd63f_0020, 0xd65f_03c0, 0xd400_0001] {
            assert_eq!(transfer(word), ControlTransfer::Elsewhere, "{word:x}");
        }
    }

    /// Goal: DC ZVA is a write; pointer authentication and system registers change what they do.
    #[test]
    fn system_instructions_have_their_effects() {
        // dc zva, x3: x3 is 4 << 36 | 1 << 31 | 3 << 12
        assert_eq!(described(&at(0xd50b_7423, 0).unwrap().1), "w:4080003000:64|");
        // paciasp, pacia1716, mrs x5, tpidr_el0, msr tpidr_el0, x5, bti c
        let changes = [
            (0xd503_233f, "|30"),
            (0xd503_211f, "|17"),
            (0xd53b_d045, "|5"),
            (0xd51b_d045, "|"),
            (0xd503_245f, "|"),
        ];
        for (word, expected) in changes {
            assert_eq!(described(&at(word, 0).unwrap().1), expected, "{word:x}");
        }
    }
}
