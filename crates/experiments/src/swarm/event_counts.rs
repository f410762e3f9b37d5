//! Coverage counts: a swarm in which nothing happens finds nothing.

use std::collections::BTreeMap;

use nodeward_scenario::ActionKind;
use nodeward_sim::{HotplugRecord, World};

/// Counts by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventCounts {
    counts: BTreeMap<String, u64>,
}

impl EventCounts {
    /// Adds to a count.
    pub fn add(&mut self, what: &str, count: u64) {
        if count > 0 {
            let sum = self.counts.entry(what.to_owned()).or_default();
            *sum = sum.saturating_add(count);
        }
    }

    /// Adds other counts.
    pub fn merge(&mut self, other: &Self) {
        other.counts.iter().for_each(|(what, &count)| self.add(what, count));
    }

    /// Returns a count.
    pub fn count(&self, what: &str) -> u64 {
        self.counts.get(what).copied().unwrap_or(0)
    }

    /// Returns all counts, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.counts.iter().map(|(what, &count)| (what.as_str(), count))
    }

    /// Returns the counts of a machine so far.
    pub(crate) fn from_world(world: &World) -> Self {
        let counters = &world.counters;
        let counts = [
            ("events", counters.events),
            ("lines of the own node", counters.local_lines),
            ("lines of other nodes", counters.remote_lines),
            ("pages that went to another node", counters.migrated_pages),
            ("pages that went in a fault", counters.lazy_pages),
            ("waits for a page in flight", counters.flight_waits),
            ("huge pages", counters.huge_faults),
            ("page lists emptied for the last page", counters.list_drains),
            ("processes ended for want of memory", counters.oom_kills),
            ("allocations that failed", counters.failed_allocations),
            ("folios held in the middle of a move", counters.turned_back),
            ("interrupts answered late", counters.late_answers),
            ("samples lost", counters.lost_samples),
            ("children that were forked", counters.forks),
            ("pages copied because somebody wrote to them", counters.copied_on_write),
            ("looks that were stale", counters.stale_looks),
        ];
        let mut happened = Self::default();
        counts.into_iter().for_each(|(what, count)| happened.add(what, count));
        world.hotplugs.iter().for_each(|record| happened.add_hotplug(world, record));
        happened
    }

    fn add_hotplug(&mut self, world: &World, record: &HotplugRecord) {
        let [done, stayed] = match world.scenario().actions[record.action].kind {
            ActionKind::CpusOff { .. } => ["CPUs that went", "CPUs that stayed"],
            ActionKind::CpusOn { .. } => ["CPUs that came back", "CPUs that were there"],
            ActionKind::MemoryOff { .. } => ["pages of nodes that went", "pages that kept a node"],
            _ => ["pages of nodes that came back", "pages of nodes that were there"],
        };
        self.add(done, record.done);
        self.add(stayed, record.stayed);
    }
}
