//! Processor architectures whose code is understood.

/// A processor architecture with its 64-bit instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    /// x86-64 with VEX, EVEX and XOP.
    X86_64,
    /// The A64 instructions of Arm.
    Aarch64,
}

impl Architecture {
    /// Returns the architecture that this program was built for; `None` if its code is not
    /// understood.
    #[must_use]
    pub fn of_this_machine() -> Option<Self> {
        if cfg!(target_arch = "x86_64") {
            Some(Self::X86_64)
        } else if cfg!(target_arch = "aarch64") {
            Some(Self::Aarch64)
        } else {
            None
        }
    }

    /// Returns the address that a pointer of a program means; `None` if no program can have memory
    /// there: it is the kernel's, or not canonical.
    ///
    /// x86-64: up to 56 bits, as page tables of five levels permit. aarch64: up to 52 bits; the
    /// processor ignores the top byte, in which programs keep tags.
    pub(crate) fn program_address(self, pointer: u64) -> Option<u64> {
        let (address, bits) = match self {
            Self::X86_64 => (pointer, 56),
            Self::Aarch64 => (pointer << 8 >> 8, 52),
        };
        (address >> bits == 0).then_some(address)
    }
}
