//! Executes the actions of a scenario while it runs.

use std::collections::VecDeque;

use nodeward_scenario::{Action, ActionKind};

use crate::events::SimEvent;
use crate::ids::SpaceId;
use crate::world::World;

impl World {
    /// Schedules the actions of the scenario as events.
    pub(crate) fn plan_actions(&mut self) {
        let times: Vec<_> = self.scenario().actions.iter().map(|action| action.at_ns).collect();
        for (at, index) in times.into_iter().zip(0..) {
            self.events.plan(at, SimEvent::Action(index));
        }
    }

    /// Executes one action of the scenario.
    pub(crate) fn perform_action(&mut self, index: usize) {
        let Action { workload, kind, .. } = self.scenario().actions[index].clone();
        let is_meant = |&space: &SpaceId| {
            let entry = &self.spaces[space];
            entry.name == workload && !entry.ended && !self.is_child(space)
        };
        let spaces: VecDeque<_> = (0..self.spaces.len()).filter(is_meant).collect();
        match kind {
            ActionKind::Migrate { from, to, times } => {
                let nodes = [from, to].map(|node| self.machine.index_of(node));
                if let [Some(from), Some(to)] = nodes {
                    self.start_migratepages(index, &spaces, (from, to), times);
                }
            }
            ActionKind::MigrateOnFault => {
                self.start_make_lazy(spaces);
            }
            ActionKind::Home { to } => {
                let home = self.machine.index_of(to);
                let tasks = spaces.iter().flat_map(|&space| self.spaces[space].tasks.clone());
                for task in tasks.collect::<Vec<_>>() {
                    self.set_home(task, home);
                }
            }
            ActionKind::Kill => spaces.into_iter().for_each(|space| self.kill_process(space)),
            ActionKind::Fork { for_ns } => self.fork_all(spaces, for_ns),
            ActionKind::Freeze { for_ns } => self.freeze_all(&spaces, for_ns),
            _ => self.perform_hotplug(index, &kind),
        }
    }
}
