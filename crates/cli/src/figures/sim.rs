//! The figures of `sim`.

use clap::ValueEnum;

/// A figure of SPEC.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SimFigure {
    /// Virtual seconds simulated in one second
    Speed,
    /// Pages allocated in one second
    Allocations,
    /// Bytes of memory that a simulated base page takes
    BytesPerPage,
    /// Number of built-in scenarios whose trace differs from the committed one
    Hashes,
}
