//! Actions of a scenario that concern the machine.

use nodeward_scenario::ActionKind;

use crate::world::World;

impl World {
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
}
