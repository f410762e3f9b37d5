//! Tests of `pin_slots.rs` that run outside of the model, which has atomics of its own.

use super::pin_slots::PinSlots;
use crate::chunk::PIN_SLOTS;

/// Goal: equal pins are pins of their own, and a full table refuses the next.
#[test]
fn a_table_fills_up() {
    let slots = PinSlots::new();
    let held: Vec<_> = (0..PIN_SLOTS).map(|_| slots.insert(&(2..5)).unwrap()).collect();
    assert_eq!(slots.insert(&(0..1)), None);
    slots.remove(held[3]);
    assert_eq!(slots.pins().filter(|pin| *pin == (2..5)).count(), PIN_SLOTS - 1);
    assert_eq!(slots.insert(&(0..1)), Some(held[3]));
}
