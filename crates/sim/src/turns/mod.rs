//! The turns of CPUs: their start, their end, and interrupts in between.

mod tlb_shootdown;

pub use tlb_shootdown::PendingIpis;
