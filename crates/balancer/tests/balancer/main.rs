//! The balancer on the fake machine: what it does, what it leaves alone, and every event that may
//! come between looking and acting.

mod acting;
mod beside_kernel;
mod faults;
mod group_changes;
mod groups;
mod keeping;
mod keeping_time;
mod kept_empty;
mod launch;
mod looking;
mod sampled;
mod scheduling;
mod segments;
mod stage;
mod takeover;
mod thread_starts;
mod totals;
mod wide;
