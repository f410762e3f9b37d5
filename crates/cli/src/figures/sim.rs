//! The figures of `sim`.

use clap::ValueEnum;

/// One number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SimFigure {
    /// Virtual seconds in a second of this machine
    Speed,
    /// Pages that are allocated in a second of this machine
    Allocations,
    /// What a base page takes of this machine's memory
    BytesPerPage,
    /// Of all scenarios that come along: how many do not come to their committed trace
    Hashes,
}
