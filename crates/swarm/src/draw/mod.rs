//! Draws a case from a seed: a machine, programs, actions, and the mover of their memory.

mod faults;
mod policy;
mod scenario;
mod style;

use nodeward_scenario::{Bug, Faults, Scenario};

use crate::{Chance, text};

pub use policy::Policy;
pub use scenario::scenario;
pub use style::{LIKELY, Style, WILD};

/// A case, fully determined by its seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// The seed.
    pub seed: u64,
    /// The machine, its workloads and actions.
    pub scenario: Scenario,
    /// The seed of its run.
    pub run_seed: u64,
    /// The plan of the run.
    pub plan: Plan,
}

/// The plan of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// The machine runs on its own, for a bounded number of events; its scenario may be a wild one.
    Watch {
        /// Maximum number of events.
        events: u64,
        /// Whether it runs a second time, which must give the same result.
        twice: bool,
    },
    /// Its memory is moved in rounds, during the faults and afterwards.
    Rounds(Policy),
}

impl Case {
    /// Draws the case of a seed.
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

    /// Plants a bug of the simulated kernel, for the whole period of its faults.
    #[must_use]
    pub fn with_bug(mut self, bug: Bug) -> Self {
        let none = || Faults { late_ipi_by_ns: 1_000, ..Faults::default() };
        self.scenario.faults.get_or_insert_with(none).bug = Some(bug);
        self
    }

    /// Returns the text of its scenario, with the plan as comments.
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
