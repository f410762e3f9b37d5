//! Code and registers of a sampled thread: any bytes give operands or none. The first byte chooses
//! the architecture and where the pointer is, then come the registers, then the code.

#![no_main]

use std::ops::ControlFlow;

use libfuzzer_sys::fuzz_target;
use nodeward_operands::{Architecture, CodeReader, OperandDecoder, Registers};

/// Where the code is.
const START: u64 = 0x10_0000;

struct FuzzedCode<'a>(&'a [u8]);

impl CodeReader for FuzzedCode<'_> {
    fn read(&mut self, address: u64, into: &mut [u8]) -> usize {
        let offset = address.checked_sub(START);
        let bytes = offset.and_then(|at| self.0.get(at as usize..)).unwrap_or(&[]);
        let length = bytes.len().min(into.len());
        into[..length].copy_from_slice(&bytes[..length]);
        length
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((&choice, input)) = input.split_first() else { return };
    let Some((values, code)) = input.split_first_chunk::<256>() else { return };
    let general = std::array::from_fn(|number| {
        u64::from_le_bytes(*values[number * 8..].first_chunk().unwrap_or(&[0; 8]))
    });
    let architecture = [Architecture::X86_64, Architecture::Aarch64][usize::from(choice & 1)];
    let registers = Registers { pc: START + u64::from(choice), general };
    let mut decoder = OperandDecoder::new(architecture);
    let mut told = 0;
    decoder.operands(&registers, &mut FuzzedCode(code), &mut |operand| {
        assert!(operand.address < 1 << 56 && operand.bytes > 0);
        told += 1;
        ControlFlow::Continue(())
    });
    // 8 instructions before the pointer and 16 from there on, each with two operands at most.
    assert!(told <= 2 * 24);
});
