//! Interrupts of CPUs.

use crate::events::NEVER_NS;
use crate::world::World;

impl World {
    /// Takes time from the task that runs on a CPU.
    pub(crate) fn charge_interrupt(&mut self, cpu: usize, ns: u64) {
        if self.cpus[cpu].running.is_some() {
            self.observe_interrupt(cpu, ns);
            let stolen_ns = &mut self.cpus[cpu].pending_interrupt_ns;
            *stolen_ns = stolen_ns.saturating_add(ns).min(NEVER_NS);
        }
    }

    /// Reports to the observer that a CPU is interrupted now.
    fn observe_interrupt(&mut self, cpu: usize, ns: u64) {
        if let Some(observer) = self.recorder.observer.as_mut().filter(|_| ns > 0) {
            observer.interrupted(self.now_ns, cpu, ns);
        }
    }
}
