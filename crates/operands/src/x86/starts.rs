//! The addresses at which the instructions before an address start.
//!
//! Instructions have 1 to 15 bytes, so the bytes before an address can be read in several ways. But
//! decoding from a wrong start soon falls into step with the right instructions. So decoding starts
//! at every byte at some distance, and the starts that most of these decodings go through are taken
//! for true. A byte of zero is no start: it is nearly always the rest of a constant. Of 2.1 million
//! instructions of PostgreSQL, glibc and this crate's tests, five begin with it.

use iced_x86::{Decoder, DecoderOptions, Instruction};

use super::is_for_programs;
use crate::code_window::CodeWindow;

/// Decodings start at least that many bytes before the address, so that they can fall into step.
const NEAREST_DECODING: usize = 16;
/// An instruction takes no more bytes.
const LONGEST_INSTRUCTION: usize = 15;

/// Returns the starts of the instructions before `pc`, the nearest first. There are none without
/// enough code before `pc`.
pub fn starts_before(window: &CodeWindow, pc: u64) -> Vec<u64> {
    let lengths = lengths(window, pc);
    let ballot = Ballot::hold(&lengths);
    let mut starts = Vec::new();
    let mut end = lengths.len();
    while let Some(start) = ballot.elected_before(&lengths, end) {
        starts.push(window.start() + start as u64);
        end = start;
    }
    starts
}

/// The length of the instruction at each byte before `pc`; 0 if there is none.
fn lengths(window: &CodeWindow, pc: u64) -> Vec<usize> {
    let bytes = window.bytes();
    let end = pc.saturating_sub(window.start()).min(bytes.len() as u64);
    let mut decoder = Decoder::with_ip(64, bytes, window.start(), DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    let mut length = |offset| {
        decoder.set_position(offset).ok()?;
        decoder.decode_out(&mut instruction);
        let may_start = bytes[offset] != 0 && is_for_programs(&instruction);
        may_start.then_some(instruction.len())
    };
    (0..end as usize).map(|offset| length(offset).unwrap_or(0)).collect()
}

/// The number of decodings that arrive at the end, by the bytes through which they go.
struct Ballot {
    /// Decodings that start an instruction at this byte.
    votes: Vec<usize>,
    /// Decodings that began at this byte or before.
    voters: Vec<usize>,
}

impl Ballot {
    fn hold(lengths: &[usize]) -> Self {
        let end = lengths.len();
        let arrives = arrives(lengths);
        let mut votes = vec![0; end + 1];
        let mut voters = vec![0; end];
        let mut began = 0;
        for start in (0..end).filter(|&start| arrives[start]) {
            let begins = usize::from(start + NEAREST_DECODING <= end);
            began += begins;
            votes[start] += begins;
            votes[start + lengths[start]] += votes[start];
            voters[start] = began;
        }
        Self { votes, voters }
    }

    /// The start of the instruction that ends at `end`, if most decodings agree on it.
    fn elected_before(&self, lengths: &[usize], end: usize) -> Option<usize> {
        let possible = end.saturating_sub(LONGEST_INSTRUCTION)..end;
        let joined = possible.filter(|&start| start + lengths[start] == end);
        let start = joined.max_by_key(|&start| self.votes[start])?;
        (self.votes[start] * 2 > self.voters[start]).then_some(start)
    }
}

/// Returns for each byte whether decoding from it arrives exactly at the end.
fn arrives(lengths: &[usize]) -> Vec<bool> {
    let end = lengths.len();
    let mut arrives = vec![false; end + 1];
    arrives[end] = true;
    for start in (0..end).rev() {
        let next = start + lengths[start];
        arrives[start] = next > start && next <= end && arrives[next];
    }
    arrives
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::code_at::CodeAt;
    use crate::effect::ControlTransfer;
    use crate::x86::place;

    /// Reads the section .text from this program's file (ELF of 64 bits), at its offset there.
    fn text_of_this_program() -> CodeAt {
        let file = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let number = |at: usize, bytes: usize| {
            let bytes = file[at..at + bytes].iter().rev();
            bytes.fold(0, |all, &byte| all << 8 | usize::from(byte))
        };
        let (table, header_bytes) = (number(0x28, 8), number(0x3a, 2));
        let section = |index: usize| table + index * header_bytes;
        let names = number(section(number(0x3e, 2)) + 0x18, 8);
        let is_text = |&at: &usize| file[names + number(at, 4)..].starts_with(b".text\0");
        let text = (0..number(0x3c, 2)).map(section).find(is_text).unwrap();
        let (start, length) = (number(text + 0x18, 8), number(text + 0x20, 8));
        CodeAt { start: start as u64, bytes: file[start..start + length].to_vec() }
    }

    /// The starts of all instructions, as a decoding from the beginning gives them: compilers put
    /// no data between functions.
    fn all_starts(text: &CodeAt) -> Vec<u64> {
        let decoder = Decoder::with_ip(64, &text.bytes, text.start, DecoderOptions::NONE);
        decoder.into_iter().map(|one| one.ip()).collect()
    }

    /// Goal: in real code, the starts that are gone back over, up to eight and to a jump or call,
    /// are true ones in at least 999 of 1000 cases. The code is that of this test: one in 25 of its
    /// instructions, some 20,000. When this was written, 8 of 49,760 starts were wrong.
    #[test]
    fn instructions_before_are_found() {
        if cfg!(not(target_arch = "x86_64")) {
            println!("skipped: this program has no code of x86-64");
            return;
        }
        let mut text = text_of_this_program();
        let starts = all_starts(&text);
        let true_starts: HashSet<u64> = starts.iter().copied().collect();
        let [mut found, mut wrong] = [0, 0];
        for &pc in starts.iter().skip(100).step_by(25) {
            let window = CodeWindow::around(&mut text, pc);
            let before = starts_before(&window, pc).into_iter();
            let before = before.map_while(|at| place(window.bytes_from(at), at));
            let before = before.take_while(|one| one.transfer == ControlTransfer::Next);
            for one in before.take(8) {
                found += 1;
                wrong += usize::from(!true_starts.contains(&one.start));
            }
        }
        println!("{wrong} of {found} starts are wrong");
        assert!(found > starts.len() / 25, "only {found} were found");
        assert!(wrong * 1000 <= found, "{wrong} of {found} are wrong");
    }

    /// Goal: without code before an address nothing is found, and nothing but code is taken for
    /// code.
    #[test]
    fn nothing_is_found_where_nothing_is() {
        let starts = |before: &[u8]| {
            let mut code = CodeAt { start: 0x1000, bytes: [before, &[0x90; 32]].concat() };
            let pc = 0x1000 + before.len() as u64;
            starts_before(&CodeWindow::around(&mut code, pc), pc)
        };
        assert_eq!(starts(&[]), []);
        // 15 bytes are too few: no decoding may begin so near.
        assert_eq!(starts(&[0x90; 15]), []);
        // 16 one-byte instructions: the one decoding that may begin goes through all of them.
        assert_eq!(starts(&[0x90; 16]), (0x1000..0x1010).rev().collect::<Vec<u64>>());
        // HLT (f4) is the kernel's, so that no decoding arrives.
        assert_eq!(starts(&[&[0x90; 31][..], &[0xf4]].concat()), []);
    }
}
