//! Queries on a world while it runs.

use nodeward_scenario::Scenario;

use super::state::World;

impl World {
    /// Returns its scenario.
    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// Returns the virtual time, in nanoseconds.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Returns the busy time of all CPUs, up to the beginning of their turns, in nanoseconds.
    pub fn busy_ns(&self) -> u64 {
        self.cpus.iter().map(|cpu| cpu.busy_ns).sum()
    }

    /// Returns the number of items that events visited and that grow with the machine: flows of
    /// turns, pipes, CPUs and nodes that the scheduler compares. It represents the cost of an
    /// event, which must not grow with the machine; only the event queue costs the logarithm of its
    /// length.
    pub fn steps(&self) -> u64 {
        self.steps + self.traffic.updates()
    }

    /// Returns a hash of everything that has happened.
    pub fn trace_hash(&self) -> u64 {
        self.trace.value()
    }
}
