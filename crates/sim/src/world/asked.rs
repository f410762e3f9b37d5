//! What a world is asked while it runs.

use nodeward_scenario::Scenario;

use super::World;

impl World {
    /// What it was made of.
    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// Virtual time, in nanoseconds.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// How long CPUs were not idle, all together, up to the beginning of their turns.
    pub fn busy_ns(&self) -> u64 {
        self.cpus.iter().map(|cpu| cpu.busy_ns).sum()
    }

    /// What events looked at that a larger machine has more of: flows of turns, pipes, CPUs and
    /// nodes that the scheduler compares. It stands for the time of an event, which must not grow
    /// with the machine; only the queue of events has its logarithm.
    pub fn steps(&self) -> u64 {
        self.steps + self.traffic.looks()
    }

    /// A number that stands for all that has happened.
    pub fn trace_hash(&self) -> u64 {
        self.trace.value()
    }
}
