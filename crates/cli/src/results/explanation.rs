//! The findings of `explain` about a process.

use std::sync::Arc;

use nodeward_balancer::{ProcessRow, RoundReport, Undecided};
use nodeward_model::Pid;

/// The decision about a process.
pub struct ProcessExplanation {
    /// The process.
    pub pid: Pid,
    /// The round.
    pub report: Arc<RoundReport>,
    /// The process's row in it, or why there is none.
    pub row: Result<ProcessRow, Undecided>,
}
