//! The key of a process, which no other process has within a boot.

use nodeward_model::Pid;

/// Identifies a process within a boot: its pid, and its start time in clock ticks.
pub type ProcessKey = (Pid, u64);
