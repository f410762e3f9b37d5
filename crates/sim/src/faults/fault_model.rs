//! The state of the fault model.

use std::collections::BTreeMap;

use nodeward_model::PageLocation;
use nodeward_policy::sampling::SplitMix64;
use nodeward_scenario::{Bug, FaultInjection, Scenario};

use super::contents::ContentTracker;
use crate::ids::SpaceId;

/// Salt of the seed, so that the stream of faults differs from that of the programs.
const FAULT_SEED: u64 = 0x6661_756c_7473;

/// Fault rates, and the state needed to check that nothing else went wrong.
#[derive(Debug)]
pub struct FaultModel {
    rates: Option<FaultInjection>,
    /// The seed of the run.
    pub seed: u64,
    /// The stream that only faults draw from.
    pub rng: SplitMix64,
    /// The contents of pages out of sight.
    pub contents: ContentTracker,
    /// The place of each page at the last look from outside, by space and address.
    pub last_locations: BTreeMap<(SpaceId, u64), PageLocation>,
}

impl FaultModel {
    /// Creates the state for a scenario that is run with a seed.
    pub fn new(scenario: &Scenario, seed: u64) -> Self {
        let rates = scenario.faults.clone();
        let contents = ContentTracker::new(rates.is_some());
        Self {
            rates,
            seed,
            rng: SplitMix64::new(seed ^ FAULT_SEED),
            contents,
            last_locations: BTreeMap::new(),
        }
    }

    /// Returns whether the simulated kernel has this bug at this time.
    pub fn has_bug(&self, bug: Bug, now_ns: u64) -> bool {
        self.rates_at(now_ns).is_some_and(|faults| faults.bug == Some(bug))
    }

    /// Returns the fault rates that apply at this time, if any.
    pub fn rates_at(&self, now_ns: u64) -> Option<&FaultInjection> {
        self.rates.as_ref().filter(|rates| rates.is_active_at(now_ns))
    }
}
