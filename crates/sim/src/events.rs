//! What is to happen, in order of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::task::TaskId;

/// Something that happens at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    /// A CPU ends what it was doing, or is to look for something else to do. Of no meaning if the
    /// CPU has begun something new since: then its turn is another one.
    Cpu {
        /// Which.
        cpu: u32,
        /// Its turn when this was planned.
        turn: u32,
    },
    /// A task has slept long enough.
    Wake(TaskId),
    /// The lines of a node's CPUs are looked at, for a better balance.
    Balance {
        /// Which, by index.
        node: u32,
    },
    /// What memory and links carried is looked at.
    Traffic,
    /// What is due once in a period of the page lists.
    Tick,
    /// The curves get a point.
    Sample,
    /// An action of the scenario, by its index.
    Action(u32),
    /// A channel of the engine that copies has done what it had, by its index.
    Engine(u32),
}

/// An event, when it happens, and which one it was to be planned.
type Entry = Reverse<(u64, u64, Event)>;

/// A slot is so long: 2^14 ns, 16 us. A machine of a thousand CPUs has some ten events in one.
const SLOT_LOG2: u32 = 14;
/// So many slots stand ready: 67 ms, longer than nearly all turns and periods.
const SLOTS: usize = 4096;

/// Events to come: those of the next slots unsorted by slot, and only those of the present one in
/// order. So an event costs the same however many there are (a calendar queue: R. Brown, 1988).
#[derive(Debug)]
pub struct Events {
    /// Of the present slot and, if they were planned late, of earlier ones.
    near: BinaryHeap<Entry>,
    /// Of the slots that follow, each at its number modulo [`SLOTS`].
    slots: Vec<Vec<Entry>>,
    /// Events in slots.
    in_slots: usize,
    /// Of later ones.
    far: BinaryHeap<Entry>,
    /// The number of the present slot.
    slot: u64,
    planned: u64,
}

impl Default for Events {
    fn default() -> Self {
        Self {
            near: BinaryHeap::new(),
            slots: vec![Vec::new(); SLOTS],
            in_slots: 0,
            far: BinaryHeap::new(),
            slot: 0,
            planned: 0,
        }
    }
}

impl Events {
    /// Plans an event. Those of the same time happen in the order in which they were planned.
    pub fn plan(&mut self, at_ns: u64, event: Event) {
        self.sort_in(Reverse((at_ns, self.planned, event)));
        self.planned += 1;
    }

    /// Takes the next one out, if it is not later than this.
    pub fn next(&mut self, until_ns: u64) -> Option<(u64, Event)> {
        while self.near.is_empty() {
            self.turn_slot(until_ns >> SLOT_LOG2)?;
        }
        let Reverse((at, ..)) = self.near.peek()?;
        if *at > until_ns {
            return None;
        }
        self.near.pop().map(|Reverse((at, _, event))| (at, event))
    }

    fn sort_in(&mut self, entry: Entry) {
        let slot = entry.0.0 >> SLOT_LOG2;
        if slot <= self.slot {
            self.near.push(entry);
        } else if slot - self.slot < SLOTS as u64 {
            self.slots[slot as usize % SLOTS].push(entry);
            self.in_slots += 1;
        } else {
            self.far.push(entry);
        }
    }

    /// Goes on to the next slot, or to the first that has something if none stands ready; none if
    /// that is later than the last slot.
    fn turn_slot(&mut self, last: u64) -> Option<()> {
        let first_far = self.far.peek().map(|entry| entry.0.0 >> SLOT_LOG2);
        let next = if self.in_slots > 0 { self.slot + 1 } else { first_far? };
        if next > last {
            return None;
        }
        self.slot = next;
        let mut present = std::mem::take(&mut self.slots[next as usize % SLOTS]);
        self.in_slots -= present.len();
        self.near.extend(present.drain(..));
        self.slots[next as usize % SLOTS] = present;
        while let Some(entry) = self.far.peek()
            && (entry.0.0 >> SLOT_LOG2) < next + SLOTS as u64
            && let Some(entry) = self.far.pop()
        {
            self.sort_in(entry);
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Goal: events come in order of time, and of one time in the order in which they were
        /// planned, whatever is planned in between: as from a sorted list.
        #[test]
        fn events_come_in_order(
            steps in prop::collection::vec((0_u64..40, 0_u64..1 << 20, 0_u64..40), 1..200),
        ) {
            let mut events = Events::default();
            let mut list: Vec<(u64, u64)> = Vec::new();
            let (mut now, mut until) = (0, 0);
            for (number, (scale, ahead, wait)) in (0..).zip(steps) {
                // From the same nanosecond to days ahead.
                let at = now + (ahead << scale >> 20);
                events.plan(at, Event::Action(number as u32));
                list.push((at, number));
                until = until.max(now) + (ahead << wait >> 24);
                while let Some((at, event)) = events.next(until) {
                    list.sort_unstable();
                    let (due, first) = list.remove(0);
                    prop_assert_eq!((at, event), (due, Event::Action(first as u32)));
                }
                prop_assert!(list.iter().all(|&(at, _)| at > until));
                now = until;
            }
        }
    }
}
