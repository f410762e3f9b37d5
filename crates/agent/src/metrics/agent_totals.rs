//! What the agent did, for metrics.

use std::collections::BTreeMap;

use nodeward_mover::MoveSums;

/// What the agent did since it started.
#[derive(Clone, Debug, Default)]
pub struct AgentTotals {
    /// Requests, by the interface that they name.
    pub requests: BTreeMap<&'static str, u64>,
    /// Those of them that were answered with an error.
    pub refusals: u64,
    /// Moves of users.
    pub moves: MoveSums,
}
