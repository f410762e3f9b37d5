//! Tests with random bytes.

use std::ops::ControlFlow;

use proptest::prelude::*;

use crate::code_at::CodeAt;
use crate::{Architecture, CodeReader, Operand, OperandDecoder, Registers};

/// Counts what is read.
struct CountedReads {
    code: CodeAt,
    calls: usize,
    bytes: usize,
}

impl CodeReader for CountedReads {
    fn read(&mut self, address: u64, into: &mut [u8]) -> usize {
        self.calls += 1;
        self.bytes += into.len();
        self.code.read(address, into)
    }
}

fn operands(
    decoder: &mut OperandDecoder,
    registers: &Registers,
    code: &mut CountedReads,
) -> Vec<Operand> {
    let mut operands = Vec::new();
    decoder.operands(registers, code, &mut |operand| {
        operands.push(operand);
        ControlFlow::Continue(())
    });
    operands
}

/// The place in the order in which operands are told.
fn place(position: i8) -> u32 {
    match position {
        -1 => 0,
        0 => 1,
        ..0 => 2 + u32::from(position.unsigned_abs()),
        _ => 100 + u32::from(position.unsigned_abs()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Goal: whatever the bytes and the registers are, nothing panics, the work is bounded, the
    /// order is kept, each address can be a program's, and a second look tells the same.
    #[test]
    fn any_bytes_give_operands_or_none(
        bytes in proptest::collection::vec(any::<u8>(), 0..400),
        start in prop_oneof![any::<u64>(), 0..4096_u64, u64::MAX - 400..=u64::MAX],
        offset in 0..400_u64,
        general in proptest::array::uniform32(prop_oneof![any::<u64>(), 0..1_u64 << 40]),
        architecture in prop_oneof![Just(Architecture::X86_64), Just(Architecture::Aarch64)],
    ) {
        let mut decoder = OperandDecoder::new(architecture);
        let code = CodeAt { start, bytes };
        let mut code = CountedReads { code, calls: 0, bytes: 0 };
        let registers = Registers { pc: start.wrapping_add(offset), general };
        let told = operands(&mut decoder, &registers, &mut code);
        // Two windows of 96 + 256 bytes at most, and two of 256 that jumps lead to.
        prop_assert!(code.calls <= 4 && code.bytes <= 2 * 352 + 2 * 256);
        // 8 + 16 instructions with two operands at most.
        prop_assert!(told.len() <= 2 * (8 + 16));
        prop_assert!(told.is_sorted_by_key(|operand| place(operand.position)));
        for operand in &told {
            prop_assert!((-8..16).contains(&operand.position));
            prop_assert!(operand.bytes >= 1 && operand.address < 1 << 56);
        }
        code.calls = 0;
        prop_assert_eq!(operands(&mut decoder, &registers, &mut code), told);
        prop_assert_eq!(code.calls, 0);
    }

    /// Goal: an address follows from the registers. If all of them are moved by a distance, so is
    /// the operand of a load at the pointer that has one register.
    #[test]
    fn addresses_follow_from_the_registers(
        base in 0..1_u64 << 40,
        distance in 0..1_u64 << 40,
        displacement in any::<i8>(),
    ) {
        // mov rax, [rbx+displacement]
        let bytes = vec![0x48, 0x8b, 0x43, displacement.cast_unsigned()];
        let mut code = CountedReads { code: CodeAt { start: 0, bytes }, calls: 0, bytes: 0 };
        let mut decoder = OperandDecoder::new(Architecture::X86_64);
        let mut address = |base: u64| {
            let registers = Registers { pc: 0, general: [base; 32] };
            operands(&mut decoder, &registers, &mut code).first().map(|operand| operand.address)
        };
        let expected = |base: u64| base.checked_add_signed(i64::from(displacement));
        prop_assert_eq!(address(base), expected(base));
        prop_assert_eq!(address(base + distance), expected(base + distance));
    }
}
