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
}
