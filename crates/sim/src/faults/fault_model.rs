//! The state of the fault model.

use std::collections::BTreeMap;

use nodeward_model::PageLocation;
use nodeward_policy::sampling::SplitMix64;
use nodeward_scenario::{ActionKind, Bug, FaultInjection, Scenario};

use super::contents::ContentTracker;
use crate::hotplug::{OfflineCpus, cpu_outcome, memory_outcome};
use crate::memory::SpaceId;
use crate::processes::ForkRelations;
use crate::world::World;

/// Salt of the seed, so that the stream of faults differs from that of the programs.
pub const FAULT_SEED: u64 = 0x6661_756c_7473;

/// Fault rates, and the state needed to check that nothing else went wrong.
#[derive(Debug)]
pub struct FaultModel {
    pub rates: Option<FaultInjection>,
    pub rng: SplitMix64,
    pub contents: ContentTracker,
    /// The place of each page at the last look from outside, by space and address.
    pub last_locations: BTreeMap<(SpaceId, u64), PageLocation>,
    pub offline_cpus: OfflineCpus,
    pub fork_relations: ForkRelations,
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

impl FaultModel {
    /// Creates the state for a scenario that is run with a seed.
    pub fn new(scenario: &Scenario, seed: u64) -> Self {
        let rates = scenario.faults.clone();
        let contents = ContentTracker::new(rates.is_some());
        Self {
            rates,
            rng: SplitMix64::new(seed ^ FAULT_SEED),
            contents,
            last_locations: BTreeMap::new(),
            offline_cpus: OfflineCpus::default(),
            fork_relations: ForkRelations::default(),
        }
    }

    /// Returns the fault rates that apply at this time, if any.
    pub fn rates_at(&self, now_ns: u64) -> Option<&FaultInjection> {
        self.rates.as_ref().filter(|rates| rates.is_active_at(now_ns))
    }
}

impl World {
    /// Returns whether the simulated kernel has this bug now.
    pub(crate) fn has_bug(&self, bug: Bug) -> bool {
        self.fault_model.rates_at(self.now_ns).is_some_and(|faults| faults.bug == Some(bug))
    }

    /// Executes an action that concerns the machine.
    pub(crate) fn perform_hotplug(&mut self, action: usize, kind: &ActionKind) {
        let index = |node| self.machine.index_of(node);
        match kind {
            ActionKind::CpusOff { cpus } => self.start_cpu_offline(action, cpus),
            ActionKind::CpusOn { cpus } => self.bring_cpus_online(action, cpus),
            ActionKind::MemoryOff { node } => {
                index(*node).into_iter().for_each(|node| self.start_memory_offline(action, node));
            }
            ActionKind::MemoryOn { node } => {
                index(*node).into_iter().for_each(|node| self.bring_memory_online(action, node));
            }
            _ => {}
        }
    }

    /// Opens a record for an action that takes parts of the machine offline or brings them back.
    pub(crate) fn begin_hotplug(&mut self, action: usize) -> usize {
        let (began_ns, ended_ns) = (self.now_ns, None);
        self.hotplugs.push(HotplugRecord { action, began_ns, ended_ns, done: 0, stayed: 0 });
        self.hotplugs.len() - 1
    }

    pub(crate) fn end_hotplug(&mut self, record: usize, done: u64, stayed: u64) {
        let record = &mut self.hotplugs[record];
        (record.ended_ns, record.done, record.stayed) = (Some(self.now_ns), done, stayed);
    }

    /// Describes the outcome of an action on the machine in words. `None` for other actions, and
    /// while the action is running.
    pub(crate) fn hotplug_outcome(&self, action: usize) -> Option<String> {
        let mut records = self.hotplugs.iter();
        let record = records.find(|record| record.action == action && record.ended_ns.is_some())?;
        Some(match self.scenario().actions[action].kind {
            ActionKind::CpusOff { .. } | ActionKind::CpusOn { .. } => cpu_outcome(record),
            _ => memory_outcome(record),
        })
    }
}
