//! Selects the tuner of page lists in a run.

use crate::reproduce::scenario_runs::ScenarioRun;

/// The key that selects the tuner of lists.
pub const TUNING: &str = "machine.pcp-tuning";

/// Makes lists follow the depth, as in the RFC.
pub fn with_depth(run: ScenarioRun) -> ScenarioRun {
    run.with_override(TUNING, "depth")
}
