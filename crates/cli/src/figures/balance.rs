//! The figure of `bench balance`.

use clap::ValueEnum;

/// One number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BalanceFigure {
    /// Milliseconds of CPU time of one decision about 1,024 CPUs, 16 nodes and 10,000 threads
    Decision,
}
