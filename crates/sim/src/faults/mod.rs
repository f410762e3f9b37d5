//! The fault model: what goes wrong on this machine, when, and what holds all the same.
//!
//! Rates come from the table `[faults]` of a scenario, the rest from its actions. Which page, call
//! or interrupt is struck is drawn from a stream of the seed that nothing else draws from, so a
//! scenario without the table is the same run as ever.
//!
//! **Allocations fail** where a move takes a page for a copy, and in page faults. The page of a
//! move stays where it was, and is told of as one without memory. A page fault takes longer, and
//! a huge one becomes base ones.
//!
//! **Pages are pinned** for a millisecond at a time, each at its own time: when a move begins, and
//! between unmapping and copying. A page that is held does not move; if it is out of sight, it is
//! put back.
//!
//! **Interrupts are answered late** when CPUs are told to forget translations. Nothing is copied
//! before the last CPU has answered.
//!
//! **Samples are lost** when counters of accesses are read. What is told is true, but not all.
//!
//! **Residency is stale** when somebody from outside looks where pages are: the place is that of
//! the look before. A page that did not move between two looks is told right by the second.
//!
//! **CPUs go and come** (`cpus-off`, `cpus-on`). What the kernel does there is finished first, no
//! task is lost, the page lists of the CPU are drained, and one CPU stays.
//!
//! **Memory goes and comes** (`memory-off`, `memory-on`). A node goes only when it is empty, and
//! else stays; nothing is allocated there meanwhile.
//!
//! **Processes fork** (`fork`). Who writes to a shared page has one of its own; calls that may
//! move only a process's own pages leave shared ones where they are.
//!
//! **Processes exit** (`kill`, and where no memory is left). Pages go back, those out of sight
//! when the mover comes back to them.
//!
//! With all of them: no page is lost or made, no node has more pages than it has room for, and a
//! page that is in sight has what was written to it last. [`World::census`] tells what is needed
//! to check that, counted anew from the pages themselves.

mod census;
mod contents;
mod cpus;
mod fork;
mod memory;
mod strikes;

use std::collections::BTreeMap;

use nodeward_model::Place;
use nodeward_policy::sampling::Stream;
use nodeward_scenario::{ActionKind, Bug, Faults, Scenario};

pub use census::{Census, NodeCensus, ProcessCensus, StalePage};
use contents::Contents;
use cpus::CpusOff;
use fork::Families;
pub use fork::SharedPages;
pub use strikes::RETRY_NS;

use crate::space::SpaceId;
use crate::world::World;

/// Makes the stream of faults another one than that of the programs.
const STREAM: u64 = 0x6661_756c_7473;

/// What goes wrong, and what is kept to tell that nothing else did.
#[derive(Debug)]
pub struct FaultState {
    rates: Option<Faults>,
    chance: Stream,
    contents: Contents,
    /// Where looks from outside saw pages last, by space and address.
    seen: BTreeMap<(SpaceId, u64), Place>,
    cpus_off: CpusOff,
    families: Families,
}

/// What came of an action that took parts of the machine away or gave them back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hotplug {
    /// The action, by its index in the scenario.
    pub action: usize,
    /// When it began, in virtual nanoseconds.
    pub began_ns: u64,
    /// When it ended; none as long as it goes on.
    pub ended_ns: Option<u64>,
    /// CPUs, or base pages, that went or came.
    pub done: u64,
    /// CPUs that stayed as they were, or base pages because of which a node stayed.
    pub stayed: u64,
}

impl FaultState {
    /// Of a scenario that is run with a seed.
    pub fn new(scenario: &Scenario, seed: u64) -> Self {
        let rates = scenario.faults.clone();
        let contents = Contents::new(rates.is_some());
        Self {
            rates,
            chance: Stream::new(seed ^ STREAM),
            contents,
            seen: BTreeMap::new(),
            cpus_off: CpusOff::default(),
            families: Families::default(),
        }
    }

    /// What goes wrong at this time, if something does.
    fn at(&self, now_ns: u64) -> Option<&Faults> {
        self.rates.as_ref().filter(|rates| rates.last_at(now_ns))
    }
}

impl World {
    /// Whether the simulated kernel has this bug now.
    pub(crate) fn has_bug(&self, bug: Bug) -> bool {
        self.faults.at(self.now_ns).is_some_and(|faults| faults.bug == Some(bug))
    }

    /// Does what an action says that concerns the machine.
    pub(crate) fn act_on_machine(&mut self, action: usize, kind: &ActionKind) {
        let index = |node| self.machine.index_of(node);
        match kind {
            ActionKind::CpusOff { cpus } => self.take_cpus(action, cpus),
            ActionKind::CpusOn { cpus } => self.give_cpus(action, cpus),
            ActionKind::MemoryOff { node } => {
                index(*node).into_iter().for_each(|node| self.take_memory(action, node));
            }
            ActionKind::MemoryOn { node } => {
                index(*node).into_iter().for_each(|node| self.give_memory(action, node));
            }
            _ => {}
        }
    }

    /// Notes that parts of the machine are about to go or to come.
    fn begin_hotplug(&mut self, action: usize) -> usize {
        let (began_ns, ended_ns) = (self.now_ns, None);
        self.hotplugs.push(Hotplug { action, began_ns, ended_ns, done: 0, stayed: 0 });
        self.hotplugs.len() - 1
    }

    fn end_hotplug(&mut self, record: usize, done: u64, stayed: u64) {
        let record = &mut self.hotplugs[record];
        (record.ended_ns, record.done, record.stayed) = (Some(self.now_ns), done, stayed);
    }

    /// What came of an action on the machine, in words; none of others, or as long as it goes on.
    pub(crate) fn outcome_of(&self, action: usize) -> Option<String> {
        let mut records = self.hotplugs.iter();
        let record = records.find(|record| record.action == action && record.ended_ns.is_some())?;
        Some(match self.scenario().actions[action].kind {
            ActionKind::CpusOff { .. } | ActionKind::CpusOn { .. } => cpus::outcome(record),
            _ => memory::outcome(record),
        })
    }
}
