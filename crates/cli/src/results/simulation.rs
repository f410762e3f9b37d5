//! The result of a simulation: the report, and why and how fast it came to its end.

use nodeward_balancer::RoundReport;
use nodeward_sim::SimReport;

/// The reason why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndReason {
    /// Its virtual time was over, or all its work was done.
    VirtualTime,
    /// `--limit-wall`.
    WallTime,
    /// Ctrl-C.
    Interrupted,
}

impl EndReason {
    /// Returns the name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::VirtualTime => "time",
            Self::WallTime => "wall",
            Self::Interrupted => "stopped",
        }
    }
}

/// The result of a run.
pub struct SimulationRun {
    /// The simulator's report.
    pub report: SimReport,
    /// The reason why it ended.
    pub ended: EndReason,
    /// Wall time, without the set-up before virtual time began.
    pub wall_ns: u64,
    /// The balancer's part in the run, if it was at work.
    pub balanced: Option<NodewardRun>,
}

/// The balancer's part in a run.
#[derive(Clone, Debug, Default)]
pub struct NodewardRun {
    /// The number of rounds.
    pub rounds: u64,
    /// Base pages that it moved.
    pub moved_pages: u64,
    /// The last round that decided about processes.
    pub last: Option<RoundReport>,
}

/// Returns virtual time per wall time.
pub fn speed(virtual_ns: u64, wall_ns: u64) -> f64 {
    virtual_ns as f64 / wall_ns.max(1) as f64
}
