//! The event queue, in order of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::ids::TaskId;

/// A time years after the end of any run, in place of infinity. Sums of hundreds of it do not
/// overflow.
pub const NEVER_NS: u64 = 1 << 55;

/// An event of the simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SimEvent {
    /// A CPU ends its current operation, or has to choose another one. Stale if the CPU has begun a
    /// new operation since, because its turn number has changed then.
    TurnEnd {
        /// Index of the CPU.
        cpu: u32,
        /// The CPU's turn number when the event was planned.
        turn: u32,
    },
    /// A task's sleep ends.
    Wake(TaskId),
    /// The run queues of a node's CPUs are checked for balance.
    Balance {
        /// Index of the node.
        node: u32,
    },
    /// The traffic of memory and links is measured.
    Traffic,
    /// Periodic work on the page lists is due.
    Tick,
    /// The time series gets a sample.
    Sample,
    /// An action of the scenario starts, by its index.
    Action(u32),
    /// A channel of the copy engine has finished its work, by its index.
    DmaDone(u32),
}

/// Time of an event, its sequence number, and the event.
type QueuedEvent = Reverse<(u64, u64, SimEvent)>;

/// Log2 of the slot length in nanoseconds: 2^14 ns, 16 us. A machine of a thousand CPUs has some
/// ten events in one slot.
const SLOT_LOG2: u32 = 14;
/// Number of slots in the ring: 67 ms, longer than nearly all turns and periods.
const SLOTS: usize = 4096;

/// Pending events: a calendar queue (R. Brown, 1988). Events of the next slots are kept unsorted by
/// slot; only those of the present slot are sorted. The cost of an event therefore does not depend
/// on their number.
#[derive(Debug)]
pub struct EventQueue {
    /// Events of the present slot and, if planned late, of earlier ones.
    near: BinaryHeap<QueuedEvent>,
    /// Events of the slots that follow, each at its number modulo [`SLOTS`].
    slots: Vec<Vec<QueuedEvent>>,
    /// Number of events in `slots`.
    in_slots: usize,
    /// Events later than all slots in the ring.
    far: BinaryHeap<QueuedEvent>,
    /// Number of the present slot.
    slot: u64,
    next_sequence: u64,
}

impl Default for EventQueue {
    fn default() -> Self {
        Self {
            near: BinaryHeap::new(),
            slots: vec![Vec::new(); SLOTS],
            in_slots: 0,
            far: BinaryHeap::new(),
            slot: 0,
            next_sequence: 0,
        }
    }
}

impl EventQueue {
    /// Adds an event. Events of the same time happen in the order in which they were planned.
    pub fn plan(&mut self, at_ns: u64, event: SimEvent) {
        self.insert(Reverse((at_ns, self.next_sequence, event)));
        self.next_sequence += 1;
    }

    /// Removes and returns the next event, if it is not later than `answered_ns`.
    pub fn pop_until(&mut self, until_ns: u64) -> Option<(u64, SimEvent)> {
        while self.near.is_empty() {
            self.advance_slot(until_ns >> SLOT_LOG2)?;
        }
        let Reverse((at, ..)) = self.near.peek()?;
        if *at > until_ns {
            return None;
        }
        self.near.pop().map(|Reverse((at, _, event))| (at, event))
    }

    fn insert(&mut self, entry: QueuedEvent) {
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

    /// Advances to the next slot, or to the first slot with events if the ring is empty. Returns
    /// `None` if that slot is later than `last`.
    fn advance_slot(&mut self, last: u64) -> Option<()> {
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
            self.insert(entry);
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Goal: events come out in order of time, and those of the same time in the order in which
        /// they were planned, whatever is planned in between. The reference is a sorted list.
        #[test]
        fn events_come_in_order(
            steps in prop::collection::vec((0_u64..40, 0_u64..1 << 20, 0_u64..40), 1..200),
        ) {
            let mut events = EventQueue::default();
            let mut list: Vec<(u64, u64)> = Vec::new();
            let (mut now, mut until) = (0, 0);
            for (number, (scale, ahead, wait)) in (0..).zip(steps) {
                // From the same nanosecond to days ahead.
                let at = now + (ahead << scale >> 20);
                events.plan(at, SimEvent::Action(number as u32));
                list.push((at, number));
                until = until.max(now) + (ahead << wait >> 24);
                while let Some((at, event)) = events.pop_until(until) {
                    list.sort_unstable();
                    let (due, first) = list.remove(0);
                    prop_assert_eq!((at, event), (due, SimEvent::Action(first as u32)));
                }
                prop_assert!(list.iter().all(|&(at, _)| at > until));
                now = until;
            }
        }
    }
}
