//! The events of a run, one after the other.

use crate::events::SimEvent;
use crate::hardware::EPOCH_NS;
use crate::world::World;

impl World {
    /// Processes all events that are due until a virtual time.
    pub fn run_until(&mut self, until_ns: u64) {
        while self.step(until_ns) {}
    }

    /// Processes up to `events` events that are due until a virtual time. Returns whether that was
    /// all of them. This lets a caller observe or stop the run at short intervals.
    pub fn run_events(&mut self, until_ns: u64, events: u32) -> bool {
        (0..events).any(|_| !self.step(until_ns))
    }

    /// Processes one event that is due until a virtual time. If there is none, advances to that
    /// time and returns `false`.
    pub(crate) fn step(&mut self, until_ns: u64) -> bool {
        let Some((at, event)) = self.events.pop_until(until_ns) else {
            self.now_ns = self.now_ns.max(until_ns);
            return false;
        };
        self.now_ns = at;
        self.counters.events += 1;
        self.dispatch(event);
        true
    }

    /// Handles an event. Each kind goes to the layer that knows it.
    fn dispatch(&mut self, event: SimEvent) {
        match event {
            SimEvent::TurnEnd { cpu, turn } if self.cpus[cpu as usize].turn_number == turn => {
                self.trace.update(&[self.now_ns, u64::from(cpu)]);
                self.run_next_turn(cpu as usize);
            }
            SimEvent::TurnEnd { .. } => {}
            SimEvent::Wake(task) => self.wake(task),
            SimEvent::Balance { node } => self.load_balance(node as usize),
            SimEvent::Traffic => {
                self.traffic.update();
                self.events.plan(self.now_ns + EPOCH_NS, SimEvent::Traffic);
            }
            SimEvent::Sample => self.sample(),
            SimEvent::Action(index) => self.perform_action(index as usize),
            SimEvent::DmaDone(channel) => self.finish_dma_transfer(channel as usize),
            SimEvent::Tick => self.age_lists(),
        }
    }
}
