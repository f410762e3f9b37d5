//! What a seed stands for: a machine, programs, what is done to them, and who moves their memory.

mod faults;
mod policy;
mod scenario;
mod style;

use nodeward_scenario::{Bug, Faults, Scenario};

use crate::{Chance, text};

pub use policy::Policy;
pub use scenario::scenario;
pub use style::{LIKELY, Style, WILD};

/// What a seed stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// The seed.
    pub seed: u64,
    /// The machine, and what happens on it.
    pub scenario: Scenario,
    /// The seed of its run.
    pub run_seed: u64,
    /// What is done with it.
    pub plan: Plan,
}

/// What is done with a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// It runs on its own, for so many events at most; its scenario may be a wild one.
    Watch {
        /// How many.
        events: u64,
        /// Whether it runs a second time, which must come to the same.
        twice: bool,
    },
    /// Its memory is moved in rounds, while things go wrong and afterwards.
    Rounds(Policy),
}

impl Case {
    /// The case of a seed.
    pub fn draw(seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        if chance.one_in(3) {
            let scenario = scenario(&mut chance, &WILD);
            let events = if chance.one_in(8) { 20_000 } else { 4_000 };
            let plan = Plan::Watch { events, twice: chance.one_in(4) };
            return Self { seed, scenario, run_seed: chance.any(), plan };
        }
        let scenario = scenario(&mut chance, &LIKELY);
        let plan = Plan::Rounds(Policy::draw(&mut chance, &scenario));
        Self { seed, scenario, run_seed: chance.any(), plan }
    }

    /// The same with a bug of the simulated kernel, from the beginning to the end of its faults.
    #[must_use]
    pub fn with_bug(mut self, bug: Bug) -> Self {
        let none = || Faults { late_ipi_by_ns: 1_000, ..Faults::default() };
        self.scenario.faults.get_or_insert_with(none).bug = Some(bug);
        self
    }

    /// The text of its scenario, and what is done with it as comments.
    pub fn text(&self) -> String {
        let plan = match &self.plan {
            Plan::Watch { events, .. } => format!("watched for {events} events"),
            Plan::Rounds(policy) => policy.to_string(),
        };
        let Self { seed, run_seed, .. } = self;
        let scenario = text::of(&self.scenario);
        format!("# seed {seed} of the swarm, run with seed {run_seed}: {plan}\n{scenario}")
    }
}
