//! The turns of CPUs: their start, their end, and interrupts in between.

mod interrupts;
mod tlb_shootdown;
mod turn;
mod turn_end;
