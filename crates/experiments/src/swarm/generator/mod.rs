//! Draws a case from a seed: a machine, programs, actions, and the mover of their memory.

mod faults;
mod group_policy;
mod profile;
mod round_policy;
mod scenario;

use nodeward_scenario::{Bug, FaultInjection, Scenario};

use crate::swarm::{SeededRng, scenario_toml};

pub use group_policy::{GroupPolicy, group_home, group_pools};
pub use profile::{ANY_ACCEPTED, GeneratorProfile, REALISTIC};
pub use round_policy::RoundPolicy;
pub use scenario::generate_scenario;

/// A case, fully determined by its seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwarmCase {
    /// The seed.
    pub seed: u64,
    /// The machine, its workloads and actions.
    pub scenario: Scenario,
    /// The seed of its run.
    pub run_seed: u64,
    /// The plan of the run.
    pub plan: CasePlan,
}

/// The plan of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CasePlan {
    /// The machine runs on its own, for a bounded number of events; its scenario may be a wild one.
    Observe {
        /// Maximum number of events.
        events: u64,
        /// Whether it runs a second time, which must give the same result.
        twice: bool,
    },
    /// Its memory is moved in rounds, during the faults and afterwards.
    Rounds(RoundPolicy),
    /// A balancer places groups of threads and memory during the faults.
    Groups(GroupPolicy),
}

/// Of the machines whose memory is moved those of each seventh seed have groups, none of which had
/// an earlier finding. They are drawn apart from all else by this number.
const GROUPS_EVERY: u64 = 7;
const GROUPS: u64 = 31;

impl SwarmCase {
    /// Draws the case of a seed.
    pub fn generate(seed: u64) -> Self {
        let mut chance = SeededRng::new(seed);
        if chance.one_in(3) {
            let scenario = generate_scenario(&mut chance, &ANY_ACCEPTED);
            let events = if chance.one_in(8) { 20_000 } else { 4_000 };
            let plan = CasePlan::Observe { events, twice: chance.one_in(4) };
            return Self { seed, scenario, run_seed: chance.next_u64(), plan };
        }
        let mut scenario = generate_scenario(&mut chance, &REALISTIC);
        let mut plan = CasePlan::Rounds(RoundPolicy::generate(&mut chance, &scenario));
        if seed.is_multiple_of(GROUPS_EVERY) {
            let mut apart = chance.clone().apart(GROUPS);
            plan = CasePlan::Groups(GroupPolicy::generate(&mut apart, &mut scenario));
        }
        Self { seed, scenario, run_seed: chance.next_u64(), plan }
    }

    /// Plants a bug of the simulated kernel, for the whole period of its faults.
    #[must_use]
    pub fn with_bug(mut self, bug: Bug) -> Self {
        let none = || FaultInjection { ipi_delay_ns: 1_000, ..FaultInjection::default() };
        self.scenario.faults.get_or_insert_with(none).bug = Some(bug);
        self
    }

    /// Returns the text of its scenario, with the plan as comments.
    pub fn to_toml(&self) -> String {
        let plan = match &self.plan {
            CasePlan::Observe { events, .. } => format!("watched for {events} events"),
            CasePlan::Rounds(policy) => policy.to_string(),
            CasePlan::Groups(policy) => policy.to_string(),
        };
        let Self { seed, run_seed, .. } = self;
        let scenario = scenario_toml::to_toml(&self.scenario);
        format!("# seed {seed} of the swarm, run with seed {run_seed}: {plan}\n{scenario}")
    }
}
