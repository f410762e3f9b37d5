//! The turns of CPUs: their start, their end, interrupts in between, and samples of accesses.

mod access_sampling;
mod interrupts;
mod line_time;
mod tlb_shootdown;
mod turn;
mod turn_end;

pub use line_time::HitRates;
