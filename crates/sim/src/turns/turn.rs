//! The start of turns, and their planned end.

use crate::cpu::TurnWork;
use crate::events::{NEVER_NS, SimEvent};
use crate::world::World;

impl World {
    /// Begins a turn that takes `ns`, after the interrupts that its task has to pay for.
    pub(crate) fn start_turn(&mut self, cpu: usize, doing: TurnWork, ns: u64) {
        let entry = &mut self.cpus[cpu];
        entry.turn_work = Some(doing);
        entry.turn_interrupt_ns = std::mem::take(&mut entry.pending_interrupt_ns);
        entry.turn_began_ns = self.now_ns + entry.turn_interrupt_ns;
        let lead = entry.turn_interrupt_ns;
        self.plan_turn(cpu, lead + ns.clamp(1, NEVER_NS));
    }

    /// Plans the end of a turn, and makes earlier plans stale.
    fn plan_turn(&mut self, cpu: usize, in_ns: u64) {
        let entry = &mut self.cpus[cpu];
        entry.turn_number = entry.turn_number.wrapping_add(1);
        let event = SimEvent::TurnEnd { cpu: cpu as u32, turn: entry.turn_number };
        self.events.plan(self.now_ns + in_ns, event);
    }

    /// Lets a CPU begin a new turn in `in_ns`.
    pub(crate) fn kick_cpu(&mut self, cpu: usize, in_ns: u64) {
        if self.cpus[cpu].is_preemptible() {
            self.plan_turn(cpu, in_ns);
        }
    }

    /// Lets other tasks run as soon as the task of a CPU can be stopped.
    pub(crate) fn resched_cpu(&mut self, cpu: usize) {
        self.cpus[cpu].need_resched = true;
        self.kick_cpu(cpu, 0);
    }

    /// Returns the speed of a CPU, of 1000: less while a sibling CPU is busy.
    pub(crate) fn speed_milli(&self, cpu: usize) -> u64 {
        let works = |&other: &usize| self.cpus[other].running.is_some();
        let shared = self.layout.cpus[cpu].siblings.iter().any(works);
        if shared { self.machine.params.smt_share_milli.max(1) } else { 1000 }
    }
}
