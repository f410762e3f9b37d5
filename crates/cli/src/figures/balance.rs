//! The figure of `bench balance`.

use clap::ValueEnum;

/// A figure of SPEC.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BalanceFigure {
    /// CPU time in milliseconds of one decision about 1,024 CPUs, 16 nodes and 10,000 threads
    Decision,
    /// The same with the threads in 2,000 groups
    GroupDecision,
}
