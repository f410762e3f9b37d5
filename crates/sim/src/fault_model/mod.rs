//! The fault model: the faults that this machine injects, and the invariants that hold all the
//! same.
//!
//! Rates come from the table `[faults]` of a scenario, the rest from its actions. The page, call or
//! interrupt that is hit is drawn from a stream of the seed that nothing else draws from. A
//! scenario without the table therefore runs exactly as it would without the fault model.
//!
//! **Allocations fail** where a move allocates a page for a copy, and in page faults. The page of a
//! move stays where it was and is reported as refused for lack of memory. A page fault takes
//! longer, and falls back from a huge page to base pages.
//!
//! **Pages are pinned** for a millisecond at a time, each page at its own time: when a move begins,
//! and between unmapping and copying. A pinned page does not move; if it is out of sight, it is put
//! back.
//!
//! **Interrupts are answered late** when CPUs are told to flush translations. Nothing is copied
//! before the last CPU has answered.
//!
//! **Samples are lost** when counters of accesses are read. The reported counts are true, but
//! incomplete.
//!
//! **Residency is stale** when an outside observer reads where pages are: it gets the place that
//! the previous look saw. The second look at a page that did not move in between is correct.
//!
//! **CPUs go offline and come back** (`cpus-off`, `cpus-on`). The kernel work of a CPU is finished
//! first, no task is lost, the page lists of the CPU are drained, and at least one CPU stays.
//!
//! **Memory goes offline and comes back** (`memory-off`, `memory-on`). A node goes offline only
//! when it is empty, and else stays. Nothing is allocated there meanwhile.
//!
//! **Processes fork** (`fork`). A process that writes to a shared page gets its own copy. Calls
//! that may move only a process's own pages leave shared ones where they are.
//!
//! **Processes exit** (`kill`, and where no memory is left). Their pages are freed; pages out of
//! sight are freed when the mover returns to them.
//!
//! Invariants under all faults: no page is lost or created, no node has more pages than its
//! capacity, and a visible page holds what was written to it last. [`World::census`] provides the
//! counts to check that, taken anew from the pages themselves.

mod census;
mod contents;
mod cpu_hotplug;
mod fork;
mod injection;
mod memory_hotplug;

use std::collections::BTreeMap;

use nodeward_model::PageLocation;
use nodeward_policy::sampling::SplitMix64;
use nodeward_scenario::{ActionKind, Bug, FaultInjection, Scenario};

pub use census::{Census, NodeCensus, ProcessCensus, StalePage};
use contents::ContentTracker;
use cpu_hotplug::OfflineCpus;
use fork::ForkRelations;
pub use fork::SharedPages;
pub use injection::RETRY_NS;

use crate::address_space::SpaceId;
use crate::world::World;

/// Salt of the seed, so that the stream of faults differs from that of the programs.
const FAULT_SEED: u64 = 0x6661_756c_7473;

/// Fault rates, and the state needed to check that nothing else went wrong.
#[derive(Debug)]
pub struct FaultModel {
    rates: Option<FaultInjection>,
    rng: SplitMix64,
    contents: ContentTracker,
    /// The place of each page at the last look from outside, by space and address.
    last_locations: BTreeMap<(SpaceId, u64), PageLocation>,
    offline_cpus: OfflineCpus,
    fork_relations: ForkRelations,
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
    fn rates_at(&self, now_ns: u64) -> Option<&FaultInjection> {
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
    fn begin_hotplug(&mut self, action: usize) -> usize {
        let (began_ns, ended_ns) = (self.now_ns, None);
        self.hotplugs.push(HotplugRecord { action, began_ns, ended_ns, done: 0, stayed: 0 });
        self.hotplugs.len() - 1
    }

    fn end_hotplug(&mut self, record: usize, done: u64, stayed: u64) {
        let record = &mut self.hotplugs[record];
        (record.ended_ns, record.done, record.stayed) = (Some(self.now_ns), done, stayed);
    }

    /// Describes the outcome of an action on the machine in words. `None` for other actions, and
    /// while the action is running.
    pub(crate) fn hotplug_outcome(&self, action: usize) -> Option<String> {
        let mut records = self.hotplugs.iter();
        let record = records.find(|record| record.action == action && record.ended_ns.is_some())?;
        Some(match self.scenario().actions[action].kind {
            ActionKind::CpusOff { .. } | ActionKind::CpusOn { .. } => cpu_hotplug::outcome(record),
            _ => memory_hotplug::outcome(record),
        })
    }
}
