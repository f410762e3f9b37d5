//! Records of what the actions of a scenario did.

use nodeward_model::Account;
use nodeward_scenario::ActionKind;

use super::cpu_time::CpuTimeKind;

/// Result of a scenario action that moves pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MoveRecord {
    /// Index of the action in the scenario.
    pub action: usize,
    /// Index of the source node.
    pub from: usize,
    /// Index of the destination node.
    pub to: usize,
    /// Start time, in virtual nanoseconds.
    pub began_ns: u64,
    /// End time, in virtual nanoseconds. `None` while the action is still running.
    pub ended_ns: Option<u64>,
    /// Pages moved and skipped so far.
    pub account: Account,
    /// Time spent in each step so far, in the order of
    /// [`CpuTimeKind::ALL`].
    pub step_ns: [u64; CpuTimeKind::ALL.len()],
}

impl MoveRecord {
    /// Returns the base pages moved per second, so far or, after the end, in total.
    pub fn pages_per_s(&self, now_ns: u64) -> u64 {
        let ns = self.ended_ns.unwrap_or(now_ns).saturating_sub(self.began_ns).max(1);
        let pages = u128::from(self.account.moved) * 1_000_000_000 / u128::from(ns);
        u64::try_from(pages).unwrap_or(u64::MAX)
    }
}

/// Outcome of an action that takes parts of the machine offline or brings them back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HotplugRecord {
    /// Index of the action in the scenario.
    pub action: usize,
    /// Start time, in virtual nanoseconds.
    pub began_ns: u64,
    /// End time, in virtual nanoseconds. `None` while the action is still running.
    pub ended_ns: Option<u64>,
    /// CPUs, or base pages, that were switched.
    pub done: u64,
    /// CPUs that did not change, or base pages that kept a node online.
    pub stayed: u64,
}

impl HotplugRecord {
    /// Describes the outcome of an action of this kind in words.
    pub(crate) fn outcome(&self, kind: &ActionKind) -> String {
        match kind {
            ActionKind::CpusOff { .. } | ActionKind::CpusOn { .. } => self.cpu_outcome(),
            _ => self.memory_outcome(),
        }
    }

    fn cpu_outcome(&self) -> String {
        let stayed = match self.stayed {
            0 => String::new(),
            count => format!(", {count} stay as they are"),
        };
        format!("{} done{stayed}", self.done)
    }

    fn memory_outcome(&self) -> String {
        match (self.done, self.stayed) {
            (0, 0) => "nothing to do".to_owned(),
            (0, stayed) => format!("stays on, as {stayed} pages are in use"),
            (done, _) => format!("{done} pages"),
        }
    }
}
