//! The periodic work on page lists.

use nodeward_policy::pcp;

use crate::events::SimEvent;
use crate::world::World;

impl World {
    /// Does the periodic work on the lists of one CPU, and plans the next tick.
    pub(crate) fn age_lists(&mut self) {
        let (cpu, end_ns) = self.mm().age_lists();
        self.charge_interrupt(cpu, end_ns - self.now_ns);
        self.plan_tick();
    }

    /// Plans the next tick.
    pub(crate) fn plan_tick(&mut self) {
        let period_ns = pcp::PERIOD_MS * 1_000_000;
        let next = self.now_ns + period_ns / (self.layout.cpus.len() as u64).max(1);
        self.events.plan(next, SimEvent::Tick);
    }
}
