//! The checks, by name.

use clap::ValueEnum;

/// Priorities of the parts that run beside the lab: its guests come first, then the tests; all else
/// takes what these leave.
const NICE_TESTS: i32 = 5;
const NICE_LINTS: i32 = 19;

/// A check with a name.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
pub enum CiPart {
    /// Formatting as rustfmt has it
    Fmt,
    /// The house's own rules
    Tidy,
    /// All that tests start compiles
    Build,
    /// Lints, with warnings as errors
    Clippy,
    /// Unit and integration tests
    Test,
    /// Documentation builds without warnings, and its examples run
    Docs,
    /// Code for an architecture type-checks for aarch64, or the workspace (`make test-long`)
    Aarch64,
    /// The lab's tests, on real kernels in QEMU
    Lab,
    /// Every command of SPEC.md runs and measures
    SpecSmoke,
}

impl CiPart {
    /// Returns whether the compiler does most of its work, on as many CPUs as there are.
    pub fn is_compiled(&self) -> bool {
        matches!(self, Self::Clippy | Self::Docs | Self::Aarch64)
    }

    /// Returns the priority at which it can run beside the lab.
    pub fn priority_beside_lab(self) -> Option<i32> {
        match self {
            CiPart::Test => Some(NICE_TESTS),
            CiPart::Tidy | CiPart::Clippy | CiPart::SpecSmoke | CiPart::Docs | CiPart::Aarch64 => {
                Some(NICE_LINTS)
            }
            CiPart::Fmt | CiPart::Build | CiPart::Lab => None,
        }
    }
}
