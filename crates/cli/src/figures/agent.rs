//! The figures of `bench agent`.

use clap::ValueEnum;

/// A figure of SPEC.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AgentFigure {
    /// Time in milliseconds within which 99 of 100 requests are answered, beside rounds
    Latency,
    /// Share of a CPU in percent that 1,000 requests a second cost the agent
    Cpu,
    /// CPU time of a request, as a multiple of that of sending as many bytes back unread
    Echo,
}
