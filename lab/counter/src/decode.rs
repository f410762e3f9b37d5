//! Decodes the few instructions that matter besides loads and stores.

use nodeward_lab_counts::mark::Mark;

/// The effect of an instruction that the counter has to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstructionEvent {
    /// Sends a request to the counter.
    Mark(Mark),
    /// Switches to another address space (writes CR3), which flushes translations.
    Cr3Write,
    /// Flushes translations.
    TlbFlush,
    /// Returns from the kernel.
    KernelExit,
}

/// Returns the effect of a program's instruction.
pub fn decode_user(instruction: &[u8]) -> Option<InstructionEvent> {
    Mark::decode(instruction).map(InstructionEvent::Mark)
}

/// Returns the effect of a kernel's instruction.
pub fn decode_kernel(instruction: &[u8]) -> Option<InstructionEvent> {
    let (wide, code) = without_prefixes(instruction);
    match *code {
        [0x0f, 0x22, register, ..] if register >> 3 & 7 == 3 => Some(InstructionEvent::Cr3Write),
        // mov to cr0 or cr4, wrmsr (of EFER above all), invpcid.
        [0x0f, 0x22 | 0x30, ..] | [0x0f, 0x38, 0x82, ..] => Some(InstructionEvent::TlbFlush),
        // invlpg is 0f 01 /7 with a memory operand; with a register it is swapgs and others.
        [0x0f, 0x01, operand, ..] if operand >> 3 & 7 == 7 && operand < 0xc0 => {
            Some(InstructionEvent::TlbFlush)
        }
        [0x0f, 0x07] => Some(InstructionEvent::KernelExit),
        [0xcf] if wide => Some(InstructionEvent::KernelExit),
        _ => None,
    }
}

/// Returns whether the instruction has the prefix for 64 bits, and the bytes after the prefixes.
fn without_prefixes(mut code: &[u8]) -> (bool, &[u8]) {
    let mut wide = false;
    while let [prefix @ (0x66 | 0x2e | 0x3e | 0x65 | 0xf2 | 0xf3 | 0x40..=0x4f), rest @ ..] = code {
        wide = matches!(prefix, 0x48..=0x4f);
        code = rest;
    }
    (wide, code)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: instructions are recognized as an assembler writes them.
    #[test]
    fn instructions_of_the_kernel() {
        let all: [(&[u8], Option<InstructionEvent>); 17] = [
            (&[0x0f, 0x22, 0xdf], Some(InstructionEvent::Cr3Write)), // mov cr3, rdi
            (&[0x41, 0x0f, 0x22, 0xdc], Some(InstructionEvent::Cr3Write)), // mov cr3, r12
            (&[0x0f, 0x22, 0xc0], Some(InstructionEvent::TlbFlush)), // mov cr0, rax
            (&[0x0f, 0x22, 0xe0], Some(InstructionEvent::TlbFlush)), // mov cr4, rax
            (&[0x0f, 0x20, 0xd8], None),                             // mov rax, cr3
            (&[0x0f, 0x30], Some(InstructionEvent::TlbFlush)),       // wrmsr
            (&[0x0f, 0x01, 0x38], Some(InstructionEvent::TlbFlush)), // invlpg [rax]
            (&[0x41, 0x0f, 0x01, 0x3c, 0x24], Some(InstructionEvent::TlbFlush)), // invlpg [r12]
            (&[0x0f, 0x01, 0xf8], None),                             // swapgs
            // Invpcid rax, [rsp].
            (&[0x66, 0x0f, 0x38, 0x82, 0x04, 0x24], Some(InstructionEvent::TlbFlush)),
            (&[0x48, 0x0f, 0x07], Some(InstructionEvent::KernelExit)), // sysretq
            (&[0x0f, 0x07], Some(InstructionEvent::KernelExit)),       // sysretl
            (&[0x48, 0xcf], Some(InstructionEvent::KernelExit)),       // iretq
            (&[0x90], None),
            (&[], None),
            (&[0x48], None),
            (&[0x0f, 0x01], None),
        ];
        for (bytes, expected) in all {
            assert_eq!(decode_kernel(bytes), expected, "{bytes:x?}");
        }
    }

    /// Goal: marks are recognized only in programs.
    #[test]
    fn marks_are_for_programs() {
        let mark = [0x0f, 0x1f, 0x80, b'N', b'W', 4, 9];
        assert_eq!(decode_user(&mark), Some(InstructionEvent::Mark(Mark::Attach(9))));
        assert_eq!(decode_kernel(&mark), None);
        assert_eq!(decode_user(&[0x0f, 0x30]), None);
    }
}
