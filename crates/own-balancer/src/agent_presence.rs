//! Whether there is an agent, to make way for.

use std::process;

use nodeward::{GroupAgent, GroupFailure};

/// Returns whether an agent is there, also one that this process may not ask.
pub fn answers(agent: &GroupAgent) -> bool {
    !matches!(agent.group_of(process::id()), Err(GroupFailure::NoAgent { .. }))
}
